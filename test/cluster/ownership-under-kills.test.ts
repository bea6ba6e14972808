import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import * as z from 'zod';
import type { Condition } from '#shared/api/condition.ts';
import { keysOf, shardKey } from '#shared/goverse/keys.ts';
import { type ShardValue, formatShard, marksOf, parseShard } from '#shared/goverse/shard-value.ts';
import { decodePooler } from '#shared/topology/pooler-record.ts';
import { seeded } from '#test/unit/events/relay/seeded.ts';
import { GoverseCrew, draw } from './goverse-crew.ts';
import { missingControlPlane } from './local-control-plane.ts';
import { OwnershipStage, shardName } from './ownership-stage.ts';
import { describeEntry, judge } from './ownership-verdict.ts';
import type { RecordedTxn, TxnFate, TxnMoment } from './recorded-etcd.ts';

/** How often something is killed; `MILLRACE_KILLS=100` for a long run by hand. */
const kills = Number(process.env['MILLRACE_KILLS'] ?? 10);
const seed = Number(process.env['MILLRACE_KILL_SEED'] ?? 1);
/** How much faster than measured GoVerse runs. Millrace's own waits stay. */
const speed = Number(process.env['MILLRACE_GOVERSE_SPEED'] ?? 4);
const shardCount = Number(process.env['MILLRACE_GOVERSE_SHARDS'] ?? 512);
const nodeCount = 5;
/** A file for all that was written, decided and killed. */
const protocolPath = process.env['MILLRACE_KILL_LOG'];

const cluster = 'owners';
const keys = keysOf(`/${cluster}`);
/** As the Shard of the stage has them. */
const quietMs = 5_000;
const deleteAfterMs = 6_000;
/** A machine that other work has to itself at times starves GoVerse of its leases, and then it all begins anew. */
const patienceSeconds = 600;
/** A write of Millrace is waited for no longer than this; then whoever is to be killed is. */
const writeTimeoutMs = 10_000;

const victims = ['worker', 'relay', 'etcd', 'node'] as const;
const moments = ['anytime', 'asked', 'answered'] as const;

/** One kill -9. */
interface Kill {
  readonly victim: (typeof victims)[number];
  /** Of a write of Millrace to etcd, or none. */
  readonly moment: 'anytime' | TxnMoment;
  /** After the last one was over. */
  readonly afterMs: number;
  /** How long a member of etcd stays away. */
  readonly awayMs: number;
  readonly member: number;
}

/** Everybody's turn comes once in a round, in an order of its own. */
function drawKills(random: () => number): readonly Kill[] {
  const rounds = Array.from({ length: Math.ceil(kills / victims.length) }, () =>
    victims
      .map((victim) => ({ victim, place: random() }))
      .toSorted((one, other) => one.place - other.place)
      .map(({ victim }) => victim),
  );
  return rounds
    .flat()
    .slice(0, kills)
    .map((victim) => ({
      victim,
      moment: draw(moments, random) ?? 'anytime',
      afterMs: Math.round(500 + random() * 7_000),
      awayMs: Math.round(500 + random() * 5_000),
      member: Math.floor(random() * 3),
    }));
}

const statusSchema = z.object({
  status: z.object({ conditions: z.array(z.custom<Condition>()) }).optional(),
});

describe.skipIf(missingControlPlane !== undefined)('who owns what while anything is killed', () => {
  test(
    `no write of ours passes its guard or touches what is others’, and all is in place afterwards (H1, H2, H4, H5, G5; seed ${seed})`,
    { timeout: (300 + kills * 40) * 1_000 },
    async () => {
      const folder = await mkdtemp(join(tmpdir(), 'millrace-ownership-'));
      const stage = new OwnershipStage();
      onTestFinished(async () => {
        await stage[Symbol.asyncDispose]();
        await rm(folder, { recursive: true, force: true });
      });
      await stage.start(folder);
      const crew = new GoverseCrew({
        stage,
        name: cluster,
        count: nodeCount,
        shardCount,
        speed,
        random: seeded(seed * 4 + 1),
      });
      onTestFinished(() => crew[Symbol.asyncDispose]());
      const run = new Run(stage, crew);
      try {
        await run.play();
      } catch (error) {
        run.tell();
        throw error;
      } finally {
        await run.keep();
      }
    },
  );
});

class Run {
  readonly #stage: OwnershipStage;
  readonly #crew: GoverseCrew;
  readonly #schedule = drawKills(seeded(seed * 4 + 2));
  readonly #poolers = seeded(seed * 4 + 3);
  readonly #struck: string[] = [];
  readonly #crashes = { records: 0, returns: 0, pods: 0 };
  /** By key: the record of a pooler that nobody is any more. */
  readonly #dead = new Map<string, string>();
  #live: readonly string[] = [];

  constructor(stage: OwnershipStage, crew: GoverseCrew) {
    this.#stage = stage;
    this.#crew = crew;
  }

  async play(): Promise<void> {
    const foreign = await this.#begin();
    const ending = new AbortController();
    const atWork = Promise.all([
      this.#crew.churn(ending.signal),
      this.#crashRecords(ending.signal),
      this.#crashPods(ending.signal),
    ]);
    // Reported at once, not after the last kill.
    const broken = atWork.then(() => undefined);
    for (const kill of this.#schedule) {
      await Promise.race([this.#strike(kill), broken]);
    }
    ending.abort();
    await atWork;
    await this.#comesToRest();
    await this.#stage.journal.caughtUp();
    const verdict = this.#judge();
    this.#report(verdict.counts);

    expect(verdict.violations).toEqual([]);
    expect(this.#stage.journal.gaps).toEqual([]);
    expect(this.#stage.otherCalls).toEqual([]);
    expect(this.#foreignFlags()).toEqual(foreign);
    expect(verdict.counts).toMatchObject({
      retargets: expect.any(Number),
      'pins taken off': expect.any(Number),
      'our writes beside flags of others': expect.any(Number),
      'records marked': expect.any(Number),
      'records deleted': expect.any(Number),
    });
  }

  /** A cluster with its shards in place, flags of others on some, and records of poolers that were killed. */
  async #begin(): Promise<Readonly<Record<string, string>>> {
    const { journal } = this.#stage;
    this.#live = this.#stage.poolerKeys().toSorted();
    for (const [place, ending] of ['0', '1', '-svc', 'x'].entries()) {
      const live = this.#live[place % this.#live.length] ?? expect.unreachable();
      this.#dead.set(live.replace(/\/Pooler$/, `${ending}/Pooler`), live);
    }
    await this.#crew.start();
    await journal.until('all shards have a node', patienceSeconds, () => this.#isInPlace());
    for (const [shard, flag] of [
      [3, 'pinned'],
      [shardCount - 5, 'pinned'],
      ...Array.from({ length: 8 }, (_, place) => [place * 17 + 5, 'somebody-else'] as const),
    ] as const) {
      const value = this.#shard(shard) ?? expect.unreachable();
      const flagged = formatShard({ ...value, flags: [...value.flags, flag] });
      await this.#stage.writeAsOwner(shardKey(keys, shard), Buffer.from(flagged));
    }
    await journal.caughtUp();
    await this.#stage.create('GoverseCluster', {
      metadata: { name: cluster },
      spec: {
        topology: { endpoints: this.#stage.recorded, prefix: `/${cluster}` },
        shards: shardCount,
        shutdown: { mode: 'clean', timeout: '40s' },
        rebalance: 'outside',
      },
    });
    return this.#foreignFlags();
  }

  /** Poolers without a pod are killed, and some of them write once more before they are taken for dead. */
  async #crashRecords(signal: AbortSignal): Promise<void> {
    const random = this.#poolers;
    for (let number = 0; !signal.aborted; number += 1) {
      const [key, live] = draw([...this.#dead], random) ?? expect.unreachable();
      const isThere = this.#stage.journal.get(key) !== undefined;
      if (!isThere || random() < 0.3) {
        this.#crashes[isThere ? 'returns' : 'records'] += 1;
        await this.#leave(key, live, number);
      }
      await delay(1_000 + random() * 5_000, undefined, { signal }).catch(() => undefined);
    }
  }

  async #leave(key: string, live: string, number: number): Promise<void> {
    const name = /\/multipooler-zone-a-([^/]+)\/Pooler$/.exec(key)?.[1] ?? expect.unreachable(key);
    // A record is that of a replica: one that claims to lead is left to people.
    const replicas = this.#live.filter((each) => this.#isReplica(each));
    const model = replicas.includes(live) ? live : replicas[0];
    if (model === undefined) {
      return;
    }
    await this.#stage.leaveRecord(model, key, name, `gone-${number}.elsewhere`);
    await this.#stage.poke('Shard', shardName);
  }

  #isReplica(key: string): boolean {
    const decoded = decodePooler(this.#stage.journal.get(key)?.value ?? new Uint8Array());
    return (
      decoded.kind === 'decoded' &&
      decoded.record.role === 'replica' &&
      decoded.record.lifecycle === 'active'
    );
  }

  /** Members with a pod die, one at a time, and are made again. */
  async #crashPods(signal: AbortSignal): Promise<void> {
    const random = seeded(seed * 4 + 4);
    while (!signal.aborted) {
      await delay(8_000 + random() * 15_000, undefined, { signal }).catch(() => undefined);
      const pod = draw(this.#stage.members(), random);
      if (signal.aborted || pod === undefined) {
        break;
      }
      this.#crashes.pods += 1;
      const { name, uid } = pod.metadata;
      await this.#stage.dataPlane.faults.inject({ kind: 'podDeath', pod: name, leaves: 'nothing' });
      await this.#stage.world.until(`${name} is gone`, patienceSeconds, () =>
        this.#stage.members().every(({ metadata }) => metadata.uid !== uid),
      );
      await this.#stage.untilSteady();
    }
  }

  async #strike(kill: Kill): Promise<void> {
    await delay(kill.afterMs);
    if (kill.moment === 'anytime') {
      await this.#kill(kill, undefined);
      return;
    }
    const fate: TxnFate = kill.victim === 'etcd' || kill.victim === 'worker' ? 'breaks' : 'goesOn';
    const act = (txn: RecordedTxn | undefined) => this.#kill(kill, txn);
    await this.#stage.atNextWrite(kill.moment, writeTimeoutMs, act, fate);
  }

  /** What kills comes before the first `await`. */
  async #kill({ victim, moment, awayMs, member }: Kill, txn: RecordedTxn | undefined) {
    const { etcd, millrace } = this.#stage;
    const when = txn === undefined ? 'at some moment' : `when a write was ${moment}`;
    const note = (who: string) =>
      void this.#struck.push(`${new Date().toISOString()} kill -9 of ${who} ${when}`);
    if (victim === 'worker' || victim === 'relay') {
      const again = millrace.killAndAwaitRestart(victim);
      note(victim);
      await again;
    } else if (victim === 'node') {
      note(`GoVerse node ${await this.#crew.kill()}`);
    } else {
      const at = txn === undefined ? etcd.members[member] : undefined;
      const chosen = at ?? etcd.members.find(({ name }) => name === txn?.member);
      const gone = chosen?.kill();
      note(`etcd member ${chosen?.name} for ${awayMs} ms`);
      await gone;
      await delay(awayMs);
      await chosen?.restart();
    }
  }

  async #comesToRest(): Promise<void> {
    const { journal } = this.#stage;
    await this.#stage.untilSteady();
    await this.#stage.poke('Shard', shardName);
    await this.#stage.poke('GoverseCluster', cluster);
    await journal.until(
      'every shard is in place, and no pin of ours is left',
      patienceSeconds,
      () => this.#isInPlace(),
    );
    await journal.until('no record of a dead pooler is left', patienceSeconds, () =>
      [...this.#dead.keys()].every((key) => journal.get(key) === undefined),
    );
    await expect
      .poll(() => this.#conditions('GoverseCluster', cluster), { timeout: 120_000, interval: 500 })
      .toMatchObject({ Ready: 'True', Reconciling: 'False', Stalled: 'False', Released: 'True' });
    // What was written last is accounted for by a look behind it.
    await expect
      .poll(() => this.#looks(), { timeout: 120_000, interval: 500 })
      .toEqual(['settled', 'settled']);
    expect(await this.#conditions('Shard', shardName)).toMatchObject({ TopologyClean: 'True' });
    await journal.caughtUp();
    const before = { asked: this.#stage.transactions.length, revision: journal.revision };
    for (let look = 0; look < 3; look += 1) {
      expect(await this.#looks()).toEqual(['settled', 'settled']);
    }
    await journal.caughtUp();
    expect({ asked: this.#stage.transactions.length, revision: journal.revision }).toEqual(before);
  }

  /** How a look of each step ends, and what it wrote on the way. */
  async #looks(): Promise<readonly string[]> {
    const release = await this.#stage.lookAt('shard-release', 'GoverseCluster', cluster);
    const cleanup = await this.#stage.lookAt('etcd-cleanup', 'Shard', shardName);
    return [release, cleanup].map(({ outcome, effects }) => [outcome, ...effects].join(', '));
  }

  async #conditions(kind: 'Shard' | 'GoverseCluster', name: string) {
    const { status } = statusSchema.parse((await this.#stage.ask('GET', kind, name)).body);
    return Object.fromEntries((status?.conditions ?? []).map((it) => [it.type, it.status]));
  }

  #shard(shard: number): ShardValue | undefined {
    const known = this.#stage.journal.get(shardKey(keys, shard));
    return known === undefined ? undefined : parseShard(known.value.toString('utf8'));
  }

  #shards(): readonly (ShardValue | undefined)[] {
    return Array.from({ length: shardCount }, (_, shard) => this.#shard(shard));
  }

  /** All nodes are there, each shard is with one of them and meant for it, and no mark of ours is left. */
  #isInPlace(): boolean {
    const { journal } = this.#stage;
    const nodes = new Set(journal.keys(keys.nodes).map((key) => key.slice(keys.nodes.length)));
    return (
      nodes.size === nodeCount &&
      this.#shards().every(
        (shard) =>
          shard !== undefined &&
          nodes.has(shard.current) &&
          shard.target === shard.current &&
          marksOf(shard).length === 0,
      )
    );
  }

  #foreignFlags(): Readonly<Record<string, string>> {
    return Object.fromEntries(
      this.#shards().flatMap((shard, place) =>
        shard === undefined || shard.flags.length === 0 ? [] : [[place, String(shard.flags)]],
      ),
    );
  }

  #judge() {
    const { journal, transactions, ownerWrites } = this.#stage;
    return judge({
      entries: journal.entries,
      transactions,
      ownerWrites,
      keys,
      shardCount,
      deadPoolers: new Set(this.#dead.keys()),
      quietMs,
      deleteAfterMs,
    });
  }

  #report(counts: Readonly<Record<string, number>>): void {
    const struck = Object.groupBy(this.#struck, (line) => /kill -9 of (\w+)/.exec(line)?.[1] ?? '');
    const told = [
      ...Object.entries(struck).map(([who, lines]) => `kill -9 of ${who}: ${lines?.length}`),
      `at a write: ${this.#struck.filter((line) => line.includes('when a write')).length}`,
      `left cleanly: ${this.#crew.log.filter((line) => line.endsWith('has left')).length}`,
      `poolers: ${JSON.stringify(this.#crashes)}`,
      `watches: ${this.#stage.journal.connections}`,
      ...Object.entries(counts).map(([what, count]) => `${what}: ${count}`),
    ];
    process.stderr.write(`seed ${seed}: ${told.join('; ')}\n`);
  }

  /** What a run that failed is looked into with: the end of it all. */
  tell(): void {
    const text = this.#protocol().map(
      ([what, lines]) => `--- ${what}\n${lines.slice(-60).join('\n')}`,
    );
    process.stderr.write(`seed ${seed}\n${text.join('\n')}\n`);
  }

  /** Writes down the whole run, where that is wanted. */
  async keep(): Promise<void> {
    if (protocolPath !== undefined) {
      const text = this.#protocol().map(([what, lines]) => `--- ${what}\n${lines.join('\n')}\n`);
      await writeFile(protocolPath, text);
    }
  }

  #protocol(): readonly (readonly [string, readonly string[]])[] {
    const { journal, remarks, decisions } = this.#stage;
    const { violations, counts } = this.#judge();
    return [
      ['schedule', this.#schedule.map((kill) => JSON.stringify(kill))],
      ['killed', this.#struck],
      ['GoVerse', this.#crew.log],
      ['Millrace said', remarks],
      [
        'decided',
        decisions
          .filter(({ step }) => step === 'shard-release' || step === 'etcd-cleanup')
          .map(({ at, step, reason, message }) => `${at} ${step} ${reason}: ${message}`),
      ],
      ['written', journal.entries.map(describeEntry)],
      ['counts', Object.entries(counts).map(([what, count]) => `${what}: ${count}`)],
      ['gaps', journal.gaps],
      ['violations', violations],
    ];
  }
}
