import * as z from 'zod';
import { type Hint, hintSchema, queueName } from '#events/hint.ts';
import { type StepName, stepNames } from '#shared/api/steps.ts';
import { shardSteps } from '#test/builders/two-steps.ts';
import type { ProxiedAnswer, ProxiedRequest } from './faulty-proxy.ts';

/** A hint that the real queue has taken. */
export interface ReceivedHint {
  readonly step: StepName;
  readonly hint: Hint;
  /** Its place among everything the ledger was told. */
  readonly at: number;
  /** The newest resourceVersion it proves to have been written before it was made; 0 for none. */
  readonly version: bigint;
}

/** A write to a target, or to one of its pods, that the API server has answered. */
interface Write {
  /** The resourceVersion it made; absent where the answer names none, as for a deletion. */
  readonly version: bigint | undefined;
  readonly at: number;
  readonly steps: readonly StepName[];
}

const sendSchema = z.object({
  QueueUrl: z.string(),
  Entries: z.array(z.object({ Id: z.string(), MessageBody: z.string() })),
});

const sentSchema = z.object({
  Successful: z.array(z.object({ Id: z.string() })).optional(),
});

/** Wakes and resyncs carry a time in milliseconds where others carry a resourceVersion, which is smaller for ages. */
const firstInstant = 1_000_000_000_000n;

/**
 * Counts final states without a hint: what was written to a target, or to its pods, and no step was told to look at it
 * afterwards.
 *
 * A hint covers a write when the queue took the hint after the API server had answered the write, by the order in which
 * this process saw both, or when the hint names a resourceVersion at least as high: resourceVersions of one cluster
 * are one order, so what it names was written later, and whoever looks because of it sees both. The end of a target is
 * covered only by a hint of the cause `deleted` with the uid that the target had.
 */
export class HintLedger {
  readonly hints: ReceivedHint[] = [];
  readonly #stage: string;
  readonly #steps: readonly StepName[];
  readonly #writes = new Map<string, Write[]>();
  readonly #removed = new Set<string>();
  #clock = 0;

  /** @param steps who has to be told */
  constructor(stage: string, steps: readonly StepName[] = shardSteps) {
    this.#stage = stage;
    this.#steps = steps;
  }

  /** Targets by uid that were ever written, those that are gone included. */
  get targets(): number {
    return this.#writes.size;
  }

  get writes(): number {
    return [...this.#writes.values()].reduce((sum, writes) => sum + writes.length, 0);
  }

  /** Messages that repeat one which the queue had taken before. */
  get duplicates(): number {
    return this.hints.length - new Set(this.hints.map(({ hint }) => hint.id)).size;
  }

  /**
   * The API server has answered a write to the target with this uid, or to a pod of it.
   *
   * @param steps whom it concerns
   */
  written(uid: string, resourceVersion?: string, steps = this.#steps): void {
    const version = resourceVersion === undefined ? undefined : BigInt(resourceVersion);
    const writes = this.#writes.get(uid) ?? [];
    writes.push({ version, at: this.#tick(), steps });
    this.#writes.set(uid, writes);
  }

  /** The API server has answered that the target is deleted. */
  removed(uid: string): void {
    this.#removed.add(uid);
  }

  /** Reads what a queue answered to a SendMessageBatch. Whatever it does not acknowledge was not received. */
  readonly observe = (request: ProxiedRequest, answer: ProxiedAnswer): void => {
    if (request.headers['x-amz-target'] !== 'AmazonSQS.SendMessageBatch' || answer.status !== 200) {
      return;
    }
    const { QueueUrl, Entries } = sendSchema.parse(JSON.parse(request.body));
    const sent = sentSchema.parse(JSON.parse(answer.body)).Successful ?? [];
    const step = this.#stepOf(QueueUrl);
    for (const { Id, MessageBody } of Entries) {
      if (sent.some((each) => each.Id === Id)) {
        this.received(step, MessageBody);
      }
    }
  };

  /** A queue has taken this message; throws where it is no hint. */
  received(step: StepName, body: string): void {
    const hint = hintSchema.parse(JSON.parse(body));
    this.hints.push({ step, hint, at: this.#tick(), version: versionOf(hint) });
  }

  /** One line for each step and target whose last state it was not told of. Empty is the goal. */
  withoutHint(): readonly string[] {
    const byTarget = Map.groupBy(this.hints, ({ step, hint }) => `${step} ${hint.data.uid}`);
    return this.#steps.flatMap((step) =>
      [...this.#writes].flatMap(([uid, writes]) => {
        const hints = byTarget.get(`${step} ${uid}`) ?? [];
        const isCovered = this.#removed.has(uid)
          ? hints.some(({ hint }) => hint.type === 'dev.millrace.hint.deleted')
          : writes
              .filter(({ steps }) => steps.includes(step))
              .every((write) => hints.some((hint) => covers(hint, write)));
        return isCovered ? [] : [`${step} ${uid}`];
      }),
    );
  }

  /** Which steps were told of which targets' ends, each once. */
  removals(): ReadonlySet<string> {
    return new Set(
      this.hints
        .filter(({ hint }) => hint.type === 'dev.millrace.hint.deleted')
        .map(({ step, hint }) => `${step} ${hint.data.uid}`),
    );
  }

  /** Targets that were said to be deleted and are not. */
  falselyDeleted(): readonly string[] {
    return this.hints
      .filter(({ hint }) => hint.type === 'dev.millrace.hint.deleted')
      .filter(({ hint }) => !this.#removed.has(hint.data.uid))
      .map(({ step, hint }) => `${step} ${hint.data.name} ${hint.data.uid}`);
  }

  #stepOf(queueUrl: string): StepName {
    const name = queueUrl.split('/').at(-1);
    const step = stepNames.find((step) => queueName(this.#stage, step) === name);
    if (step === undefined) {
      throw new Error(`${queueUrl} is no step's queue`);
    }
    return step;
  }

  #tick(): number {
    this.#clock += 1;
    return this.#clock;
  }
}

function covers(hint: ReceivedHint, write: Write): boolean {
  return hint.at > write.at || (write.version !== undefined && hint.version >= write.version);
}

/** Of the target as the relay knew it, and of the object that moved, the newer version. */
function versionOf({ id, data }: Hint): bigint {
  const own = BigInt(data.resourceVersion ?? 0);
  const [, token = '0'] = id.split('/');
  const moved = BigInt(token);
  return moved < firstInstant && moved > own ? moved : own;
}
