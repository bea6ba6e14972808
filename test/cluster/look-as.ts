import { makeHint } from '#events/hint.ts';
import type { Decision } from '#shared/kernel/decision.ts';
import { wallClock } from '#shared/kernel/instant.ts';
import { createLogger } from '#shared/kernel/logger.ts';
import { runBatch } from '#shared/kernel/pipeline.ts';
import type { Step } from '#shared/kernel/step.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { type TargetKind, resourceTypes } from '#shared/kube/resources.ts';
import { outsideOver } from '#shared/outside/connect.ts';
import { sqsRecord } from '#test/builders/sqs-record.ts';

const clusterId = 'test';

/** A target as a hint names it. */
export interface HintedTarget {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/**
 * One message to a step's pipeline over a connection, as a queue hands it over: observe, decide, write.
 *
 * @returns what the look came to, `undefined` where it came to nothing
 */
export async function lookAs<T extends TargetKind, Snapshot>(
  connection: KubeConnection,
  step: Step<T, Snapshot>,
  target: HintedTarget,
): Promise<Decision | undefined> {
  const made: Decision[] = [];
  const hint = makeHint({
    step: step.name,
    cause: 'changed',
    source: clusterId,
    target: { kind: step.target, plural: resourceTypes[step.target].plural, ...target },
    token: '1',
    at: wallClock(),
  });
  const watched: Step<T, Snapshot> = {
    ...step,
    decide: (snapshot, now) => {
      const decision = step.decide(snapshot, now);
      made.push(decision);
      return decision;
    },
  };
  await runBatch(watched, { Records: [sqsRecord('1', JSON.stringify(hint))] }, () => 30_000, {
    clock: wallClock,
    random: () => 0,
    deadlineIn: (delayMs) => AbortSignal.timeout(delayMs),
    logger: createLogger('silent', {}),
    config: { MILLRACE_CLUSTER_ID: clusterId, MILLRACE_NAMESPACES: [target.namespace] },
    outside: outsideOver(connection, clusterId, () => Promise.resolve()),
  });
  return made.at(-1);
}
