import { queueName } from '#events/hint.ts';
import type { StepName } from '#shared/api/steps.ts';
import { describeError } from '#shared/kernel/errors.ts';
import { QueueRefusal } from '#shared/queue/explain.ts';
import type { QueueSender } from '#shared/queue/queue.ts';
import type { ReplayJournal } from './journal.ts';
import { type Trying, isLasting, maxTries, pauseBeforeTry } from './patience.ts';

/** One hint on its way to its step's queue. */
export interface Parcel {
  /** What the journal calls it: a letter's id, or where a hint was found. */
  readonly key: string;
  readonly message: string;
  /** The target's uid. */
  readonly group: string;
}

export interface SendingPorts {
  readonly sender: QueueSender;
  readonly journal: ReplayJournal;
  readonly trying: Trying;
}

export interface BatchOutcome {
  /** The keys that the queue has taken. */
  readonly sent: ReadonlySet<string>;
  /** The others: why, and whether the queue may have taken them all the same. */
  readonly failed: ReadonlyMap<string, { readonly why: string; readonly isUncertain: boolean }>;
  /** How many may have been taken twice: a try got no answer, and a later one was taken. */
  readonly perhapsTwice: number;
  /** A refusal that every further batch would get as well. */
  readonly refusal?: QueueRefusal;
}

/**
 * Sends up to ten hints to one step's queue, in a few tries, and writes into the journal what is about to be done and what
 * was. Never rejects for what the queue does.
 */
export async function sendBatch(
  stage: string,
  step: StepName,
  parcels: readonly Parcel[],
  ports: SendingPorts,
): Promise<BatchOutcome> {
  const { journal, trying } = ports;
  const waiting = new Map(parcels.map((parcel, place) => [String(place), parcel]));
  const unanswered = new Set<string>();
  const sent = new Set<string>();
  const whys = new Map<string, string>();
  let perhapsTwice = 0;
  let refusal: QueueRefusal | undefined;
  await journal.note(
    'sending',
    parcels.map(({ key }) => key),
  );
  for (let tries = 1; waiting.size > 0; tries += 1) {
    const answer = await ask(stage, step, waiting, ports);
    for (const id of answer.taken) {
      const parcel = waiting.get(id);
      if (parcel !== undefined) {
        sent.add(parcel.key);
        perhapsTwice += unanswered.has(id) ? 1 : 0;
        waiting.delete(id);
      }
    }
    for (const id of waiting.keys()) {
      whys.set(id, answer.whys.get(id) ?? answer.why);
      if (answer.isUnanswered) {
        unanswered.add(id);
      }
    }
    refusal = answer.refusal;
    if (waiting.size === 0 || refusal !== undefined || tries === maxTries) {
      break;
    }
    trying.onRetry(answer.why);
    await trying.pause(pauseBeforeTry(tries, trying.random));
  }
  const failed = new Map(
    [...waiting].map(([id, { key }]) => [
      key,
      { why: whys.get(id) ?? 'unknown', isUncertain: unanswered.has(id) },
    ]),
  );
  await journal.note('sent', [...sent]);
  await journal.note(
    'notSent',
    [...failed].flatMap(([key, { isUncertain }]) => (isUncertain ? [] : [key])),
  );
  return { sent, failed, perhapsTwice, ...(refusal === undefined ? {} : { refusal }) };
}

interface Answer {
  readonly taken: readonly string[];
  readonly whys: ReadonlyMap<string, string>;
  readonly why: string;
  /** Whether the queue may have taken what it did not acknowledge. */
  readonly isUnanswered: boolean;
  readonly refusal?: QueueRefusal;
}

async function ask(
  stage: string,
  step: StepName,
  waiting: ReadonlyMap<string, Parcel>,
  { sender }: SendingPorts,
): Promise<Answer> {
  const entries = [...waiting].map(([id, { message: body, group }]) => ({ id, body, group }));
  try {
    const { acknowledged, failed } = await sender.send(queueName(stage, step), entries);
    return {
      taken: acknowledged,
      whys: new Map(failed.map(({ id, why }) => [id, why])),
      why: failed[0]?.why ?? 'the queue did not say what became of it',
      isUnanswered: false,
    };
  } catch (error) {
    const isRefusal = error instanceof QueueRefusal;
    return {
      taken: [],
      whys: new Map(),
      why: describeError(error),
      // A server that failed may have failed after it had taken them.
      isUnanswered: !isRefusal || !isLasting(error),
      ...(isRefusal && isLasting(error) ? { refusal: error } : {}),
    };
  }
}
