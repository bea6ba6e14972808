import { setTimeout as delay } from 'node:timers/promises';
import { makeHint, queueName } from '#events/hint.ts';
import { declarations } from '#infra/kubernetes/declarations.ts';
import type { AuditedRequest } from '#infra/local/control-plane/audit-log.ts';
import { stepNames } from '#shared/api/steps.ts';
import { wallClock } from '#shared/kernel/instant.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import {
  type Deployed,
  patienceSeconds,
  shardManifest,
  shardName,
  startDeployed,
} from '#test/deploy/deployed.ts';
import { clusterId, namespace, stage } from '#test/deploy/by-readme.ts';
import { percentile } from './distribution.ts';
import { type Figure, figure } from './figure.ts';
import { type Part, scaled } from './part.ts';

const changeCount = 150;

/** Before those that count: functions are loaded, connections are open. */
const warmUpCount = 5;

const members = 3;

/** What the relay may add to what the queue and the function take by themselves. */
const goalBeyondMs = 500;

/** The stand-in looks into an idle queue once a second, so what comes at random meets every part of that second. */
const longestPauseMs = 1_000;

/** Every step that is told of a Shard: a change wakes all of them, so a message that is sent by hand goes to all as well. */
const shardSteps = stepNames.filter((name) => declarations[name].target === 'Shard');
const watchedStep = 'pool-pods';

/** How the functions are woken: by a change that the relay sees, or by messages that say the same. */
type Way = 'relay' | 'queue';

/**
 * From a change that the API server has acknowledged, by the installed relay, to the deployed function's first request.
 *
 * The time begins when the answer to the change has come, and ends when the API server has received the first request of
 * the function of pool-pods after it, by the audit log: one clock, since all is on one machine. Half of the times begin with
 * the acknowledgement of messages that are sent straight to the same queues instead, in turn with the others, so whatever
 * the stand-in's own polling and the start of an invocation take is in both. What is held to a goal is the difference.
 */
export const deployed: Part = {
  name: 'deployed',
  title: 'from a change to the deployed function, beside a message sent straight to its queue',
  async measure(options) {
    await using stack = new AsyncDisposableStack();
    options.log('deploying as the README has it');
    const installation = await startDeployed(stack);
    await installation.createDatabase(namespace);
    const shards = collectionPath('Shard', namespace);
    await installation.create(shards, shardManifest(shardName, members));
    await installation.untilSettled(members);
    const count = scaled(changeCount, options);
    const wakes: Wake[] = [];
    options.log(`${count} changes, and as many messages`);
    for (let number = -warmUpCount; number < count; number += 1) {
      for (const way of ['relay', 'queue'] as const) {
        const woken = await wake(installation, way);
        if (number >= 0) {
          wakes.push(woken);
        }
        await delay(Math.random() * longestPauseMs);
      }
    }
    const requests = (await installation.requests()).filter(isFirstOfALook);
    const timesOf = (wanted: Way) =>
      wakes
        .filter(({ way }) => way === wanted)
        .map(({ begunMs, acknowledgedMs }) => firstAfter(requests, begunMs) - acknowledgedMs);
    return figuresOf(timesOf('relay'), timesOf('queue'));
  },
};

interface Wake {
  readonly way: Way;
  readonly begunMs: number;
  readonly acknowledgedMs: number;
}

/** Resolves once the function that is watched has made its look. */
async function wake(installation: Deployed, way: Way): Promise<Wake> {
  const { log } = installation;
  const token = crypto.randomUUID();
  const looks = log.decisions(watchedStep).length;
  const begunMs = Date.now();
  const acknowledgedMs = await (way === 'relay'
    ? change(installation, token)
    : send(installation, token));
  await log.until(
    'the function has looked',
    patienceSeconds,
    () => log.decisions(watchedStep).length > looks,
  );
  return { way, begunMs, acknowledgedMs };
}

async function change(installation: Deployed, token: string): Promise<number> {
  await installation.patchShard({ metadata: { annotations: { 'millrace.dev/reconcile': token } } });
  return Date.now();
}

async function send({ world, queues, deployment }: Deployed, token: string): Promise<number> {
  const uid = world.get('Shard', shardName)?.metadata.uid ?? '';
  const target = { kind: 'Shard', plural: 'shards', namespace, name: shardName, uid };
  const sent = await Promise.all(
    shardSteps.map(async (step) => {
      const facts = { step, cause: 'replay', source: clusterId, target, token } as const;
      const hint = makeHint({ ...facts, at: wallClock() });
      await queues.send(queueName(stage, step), [JSON.stringify(hint)], deployment.replayer);
      return { step, atMs: Date.now() };
    }),
  );
  return sent.find(({ step }) => step === watchedStep)?.atMs ?? Number.NaN;
}

function isFirstOfALook({ userAgent, verb, resource, name }: AuditedRequest): boolean {
  return (
    userAgent === `millrace/${watchedStep}` &&
    verb === 'get' &&
    resource === 'shards' &&
    name === shardName
  );
}

function firstAfter(requests: readonly AuditedRequest[], atMs: number): number {
  const times = requests.map(({ receivedAt }) => Date.parse(receivedAt));
  return Math.min(...times.filter((time) => time >= atMs));
}

function figuresOf(relay: readonly number[], queue: readonly number[]): Figure[] {
  return [0.5, 0.99].flatMap((share) => {
    const [byRelay, byQueue] = [percentile(relay, share), percentile(queue, share)];
    const name = share === 0.5 ? 'median' : '99 of 100';
    const goal = share === 0.5 ? {} : { goal: goalBeyondMs };
    return [
      figure(`deployed: change to function, ${name}`, byRelay, 'ms', { peer: byQueue }),
      figure(`deployed: beyond the queue, ${name}`, byRelay - byQueue, 'ms', goal),
    ];
  });
}
