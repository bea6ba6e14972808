import { setTimeout as delay } from 'node:timers/promises';
import * as z from 'zod';
import { keysOf } from '#shared/goverse/keys.ts';
import { readConfig } from '#shared/kernel/config.ts';
import { describeError } from '#shared/kernel/errors.ts';
import { LiveView } from './cluster-view.ts';
import { NodeLink, connectEtcd, readAll, watchAll } from './etcd-link.ts';
import { noMemory } from './leader.ts';
import { LocalObjects, objectIds } from './objects.ts';
import { Registration } from './registration.ts';
import { type Said, type Settings, settingsSchema } from './settings.ts';
import { type GoverseNodeState, tick } from './tick.ts';
import { firstDueMs, nextTickMs } from './tick-times.ts';
import { timing } from './timing.ts';

const configuration = z.object({ MILLRACE_GOVERSE_SETTINGS: z.string().min(1) });

/** Runs one member of a GoVerse cluster until SIGTERM or SIGINT, which it answers by GoVerse's quick shutdown. */
async function main(): Promise<void> {
  const config = readConfig(configuration);
  const settings = settingsSchema.parse(JSON.parse(config.MILLRACE_GOVERSE_SETTINGS));
  const client = connectEtcd(settings.endpoint, settings.access);
  const keys = keysOf(settings.prefix);
  const folder = settings.role === 'gate' ? keys.gates : keys.nodes;
  const registration = new Registration({
    client,
    key: `${folder}${settings.address}`,
    address: settings.address,
    speed: settings.speed,
    onLease: (lease) => say({ lease, atMs: Date.now() }),
  });
  await registration.begin();
  const node = settings.role === 'gate' ? undefined : await startNode(settings);

  let isStopping = false;
  const stop = async (): Promise<void> => {
    if (isStopping) {
      return;
    }
    isStopping = true;
    node?.stop();
    await registration.end();
    process.exit(0);
  };
  const stopOrFail = () => {
    stop().catch(fail);
  };
  process.once('SIGTERM', stopOrFail);
  process.once('SIGINT', stopOrFail);
  process.stdout.write(`${JSON.stringify({ ready: true })}\n`);
}

interface RunningNode {
  stop(): void;
}

async function startNode(settings: Settings): Promise<RunningNode> {
  const { address: self, shardCount, speed, endpoint, access } = settings;
  const keys = keysOf(settings.prefix);
  const view = new LiveView(keys, shardCount);
  const client = connectEtcd(endpoint, access);
  const revisions: number[] = [];
  const link = new NodeLink({
    client,
    keys,
    self,
    shardCount,
    view,
    onWritten: (revision) => void revisions.push(revision),
  });
  const node: GoverseNodeState = {
    self,
    shardCount,
    speed,
    view,
    objects: new LocalObjects(objectIds(settings.objects), shardCount),
    memory: noMemory,
  };

  async function follow(): Promise<void> {
    const { revision, entries } = await readAll(client, keys);
    view.load(entries, Date.now());
    await watchAll(client, keys, revision, {
      onChanges(changes) {
        for (const change of changes) {
          view.take(change, Date.now());
        }
      },
      onReconnected: () => void (view.changedAtMs = Date.now()),
      onLost: followAgain,
    });
  }
  function followAgain(): void {
    setTimeout(() => {
      follow().catch(followAgain);
    }, timing.retryMs / speed);
  }

  await follow();
  const ticking = new AbortController();
  runTicks(settings, ticking.signal, async (clock) => {
    const work = await tick(node, link, clock);
    return { tick: [...work], revisions: revisions.splice(0) };
  }).catch(fail);
  return {
    stop() {
      ticking.abort();
      link.stop();
    },
  };
}

/**
 * Ticks until it is aborted. A tick's clock begins when it was due: this process's timers come a little late, Go's hardly
 * do, and what misses the ten seconds by a hair must miss them here as well.
 */
async function runTicks(
  { speed, phase }: Settings,
  signal: AbortSignal,
  tickOnce: (clock: () => number) => Promise<Omit<Extract<Said, { tick: unknown }>, 'tookMs'>>,
): Promise<void> {
  const periodMs = timing.tickMs / speed;
  let dueMs = firstDueMs({ startMs: Date.now(), periodMs, phase });
  let endedMs = dueMs;
  while (!signal.aborted) {
    dueMs = nextTickMs(dueMs, { periodMs, nowMs: endedMs });
    await delay(Math.max(0, dueMs - Date.now()), undefined, { signal }).catch(() => undefined);
    if (signal.aborted) {
      return;
    }
    const beganMs = Date.now();
    // One that waited for the last tick to end is late for GoVerse as well.
    const lateMs = beganMs - Math.max(dueMs, endedMs);
    const said = await tickOnce(() => Date.now() - lateMs);
    endedMs = Date.now();
    say({ ...said, tookMs: endedMs - beganMs });
  }
}

function say(said: Said): void {
  process.stdout.write(`${JSON.stringify(said)}\n`);
}

function fail(error: unknown): void {
  process.stderr.write(`${describeError(error)}\n`);
  process.exit(1);
}

main().catch(fail);
