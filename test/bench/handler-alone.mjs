/**
 * A packaged handler in a process of its own, as a function has one: invoked with the same event again and again. The
 * first argument is its bundle, the second the event, the third how often. Ends with one line: the most memory it had.
 *
 * No TypeScript and no package, because what loads these would be counted with it.
 */
import { setTimeout as delay } from 'node:timers/promises';

const [bundle, event, times] = process.argv.slice(2);
const { handler } = await import(bundle);
for (let time = 0; time < Number(times); time += 1) {
  await handler(JSON.parse(event), {
    awsRequestId: String(time),
    functionName: 'bench',
    getRemainingTimeInMillis: () => 30_000,
  });
  // GoVerse ticks every five seconds: a look that followed at once would see nothing new.
  await delay(1_000);
}
process.stdout.write(`${JSON.stringify({ mostKib: process.resourceUsage().maxRSS })}\n`);
process.exit();
