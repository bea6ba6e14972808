import * as z from 'zod';
import { hintSchema } from '#events/hint.ts';
import { type StepName, stepNames } from '#shared/api/steps.ts';
import { type DecisionEntry, type HintEntry, entrySchema } from '#shared/archive/entry.ts';
import { type Line, readLines } from '#shared/archive/lines.ts';
import { parseInstant } from '#shared/kernel/instant.ts';
import { hintOfEntry, replayableOf, stepInHint } from './again.ts';
import type { Found } from './found.ts';

/** The longest single JSON document over several lines, in characters. */
const maxDocumentLength = 1024 * 1024;

/** A message as SQS, its command line, a function's event or a discarded letter hold it. */
const messageSchema = z.object({ Body: z.string().optional(), body: z.string().optional() });

/** Several of them: what `aws sqs receive-message` prints, and what a function is called with. */
const messagesSchema = z.object({
  Messages: z.array(z.unknown()).optional(),
  Records: z.array(z.unknown()).optional(),
});

/**
 * The hints in a file: JSON lines, or one JSON document over several lines, compressed with gzip or not. Each may be a hint, an
 * entry of the archive, or a message that holds one. What is none of these is named by its line, and the rest goes on.
 *
 * @param cluster the cluster id
 */
export async function* hintsInFile(
  bytes: AsyncIterable<Uint8Array>,
  cluster: string,
): AsyncGenerator<Found> {
  const lines = readLines(ended(bytes))[Symbol.asyncIterator]();
  const begun: Line[] = [];
  let length = 0;
  let isDocument = true;
  for (let next = await lines.next(); next.done !== true; next = await lines.next()) {
    begun.push(next.value);
    const text = textOf(next.value);
    length += text.length;
    // A first line that is JSON by itself, or does not begin as JSON does, is no part of a longer document.
    isDocument &&= begun.length > 1 || (/^\s*[[{]/.test(text) && parse(text) === undefined);
    if (!isDocument || length > maxDocumentLength) {
      break;
    }
  }
  const whole = isDocument && begun.length > 1 ? parse(begun.map(textOf).join('\n')) : undefined;
  if (whole !== undefined) {
    yield* hintsIn(whole, 'line 1', cluster);
    return;
  }
  for (const line of begun) {
    yield* hintsInLine(line, cluster);
  }
  for (let next = await lines.next(); next.done !== true; next = await lines.next()) {
    yield* hintsInLine(next.value, cluster);
  }
}

/** The last line of a file may lack its end, and is one all the same. Of what is compressed the end tells of a cut. */
async function* ended(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let isFirst = true;
  let isPlain = true;
  for await (const part of bytes) {
    isPlain = isFirst ? part[0] !== 0x1f : isPlain;
    isFirst = false;
    yield part;
  }
  if (isPlain) {
    yield Buffer.from('\n');
  }
}

function textOf(line: Line): string {
  return line.kind === 'line' ? line.text : '';
}

function* hintsInLine(line: Line, cluster: string): Generator<Found> {
  const where = `line ${line.number}`;
  if (line.kind === 'tooLong') {
    yield { kind: 'bad', where, why: 'it is too long to be a hint' };
  } else if (line.kind === 'cut') {
    yield { kind: 'bad', where, why: 'the file ends within it, or is damaged there' };
  } else {
    const json = parse(line.text);
    if (json === undefined) {
      yield { kind: 'bad', where, why: 'it is not JSON' };
    } else {
      yield* hintsIn(json, where, cluster);
    }
  }
}

function* hintsIn(json: unknown, where: string, cluster: string): Generator<Found> {
  const several: readonly unknown[] | undefined = Array.isArray(json) ? json : messagesIn(json);
  if (several !== undefined) {
    for (const [place, each] of several.entries()) {
      yield hintIn(each, `${where}, number ${place + 1}`, cluster);
    }
    return;
  }
  yield hintIn(json, where, cluster);
}

function messagesIn(json: unknown): readonly unknown[] | undefined {
  const parsed = messagesSchema.safeParse(json);
  if (!parsed.success) {
    return undefined;
  }
  const { Messages, Records } = parsed.data;
  return Messages ?? Records;
}

function hintIn(json: unknown, where: string, cluster: string): Found {
  if (typeof json === 'string') {
    return hintInText(json, where, cluster);
  }
  const entry = entrySchema.safeParse(json);
  if (entry.success) {
    return hintInEntry(entry.data, where, cluster);
  }
  const message = messageSchema.safeParse(json);
  const text = message.data?.Body ?? message.data?.body;
  if (text !== undefined && !hintSchema.safeParse(json).success) {
    return hintInText(text, where, cluster);
  }
  return checked(json, stepInHint(json), where, cluster);
}

function hintInText(text: string, where: string, cluster: string): Found {
  const json = parse(text);
  return json === undefined
    ? { kind: 'bad', where, why: 'the message is not JSON' }
    : checked(json, stepInHint(json), where, cluster);
}

/** The hint in an entry of the archive. */
export function hintInEntry(
  entry: DecisionEntry | HintEntry,
  where: string,
  cluster: string,
): Found {
  if (entry.cluster !== cluster) {
    return { kind: 'bad', where, why: 'the entry is of another cluster' };
  }
  const hint = entry.kind === 'hint' ? entry.hint : hintOfEntry(entry);
  const found = checked(hint, entry.step, where, cluster);
  const reason = entry.kind === 'hint' ? undefined : reasonOf(entry);
  return found.kind === 'bad'
    ? found
    : { ...found, at: parseInstant(entry.at), ...(reason === undefined ? {} : { reason }) };
}

/** A failure's, where the look failed: that is what people ask for. */
function reasonOf({ decision, result }: DecisionEntry): string | undefined {
  return result.kind === 'failed' ? result.reason : decision?.reason;
}

function checked(json: unknown, step: StepName | undefined, where: string, cluster: string): Found {
  if (step === undefined) {
    const why = hintSchema.safeParse(json).success
      ? `its id names no step; there are: ${stepNames.join(', ')}`
      : 'it is no hint, no entry of the archive, and no message with one';
    return { kind: 'bad', where, why };
  }
  const replayable = replayableOf(JSON.stringify(json), step, cluster);
  return 'why' in replayable
    ? { kind: 'bad', where, why: replayable.why }
    : { kind: 'hint', where, ...replayable, at: parseInstant(replayable.hint.time) };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
