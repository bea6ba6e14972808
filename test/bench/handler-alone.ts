/**
 * A packaged handler in a process of its own, as a function has one: invoked with the same event again and again. The
 * first argument is its bundle, the second the event, the third how often. Ends with one line: the most memory it had.
 */
import { setTimeout as delay } from 'node:timers/promises';
import * as z from 'zod';

const [bundle, event, times] = process.argv.slice(2);
if (bundle === undefined || event === undefined || times === undefined) {
  throw new Error('give the bundle, the event, and how often it is invoked');
}
const module = z
  .object({ handler: z.custom<(event: unknown, context: object) => Promise<unknown>>() })
  .parse(await import(bundle));
for (let time = 0; time < Number(times); time += 1) {
  // GoVerse ticks every five seconds: looks that follow at once would see nothing new.
  await delay(1_000);
  await module.handler(JSON.parse(event), {
    awsRequestId: String(time),
    functionName: 'bench',
    getRemainingTimeInMillis: () => 30_000,
  });
}
process.stdout.write(`${JSON.stringify({ mostKib: process.resourceUsage().maxRSS })}\n`);
process.exit();
