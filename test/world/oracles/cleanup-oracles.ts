import { readDrainRecord } from '#shared/api/drain-record.ts';
import { recordAnnotation } from '#shared/api/annotations.ts';
import { cellLabel, poolLabel } from '#shared/api/labels.ts';
import { podBaseName, poolerName } from '#shared/api/names.ts';
import { type Instant, secondsBetween } from '#shared/kernel/instant.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { decodePooler } from '#shared/topology/pooler-record.ts';
import { type PoolerRecord, isSamePooler } from '#shared/topology/topology.ts';
import type { Entry } from '#test/world/model/etcd.ts';
import { standingRecords } from '#test/world/run/dead-records.ts';
import { fieldOfTheFuture } from '#test/world/run/pooler-records.ts';
import {
  type InFlight,
  type Operation,
  type Seen,
  type Witness,
  type World,
  type Write,
  nameOf,
} from '#test/world/run/world.ts';
import { lookOf } from './oracles.ts';
import type { Tally } from './tally.ts';
import { millisecondsOf } from './timetable.ts';

type Shard = KubeObject<'Shard'>;
type Content = Omit<PoolerRecord, 'key' | 'storeCell' | 'modRevision'>;

/** A record as a look has read it. */
interface Read {
  readonly key: string;
  readonly revision: string;
  readonly record: Content;
}

/** What one look of etcd-cleanup was told, up to the pods: its evidence. */
interface Evidence {
  readonly shard: Shard;
  readonly at: Instant;
  readonly records: readonly Read[];
  /** Why nothing may follow from it; none where it is whole. */
  readonly gap: string | undefined;
  /** The shard's own, and all of the namespace. */
  readonly members: Pods;
  readonly pods: Pods;
}

/** What is being changed: the record before and after, none where it is deleted. */
interface Change {
  readonly key: string;
  readonly old: Entry;
  readonly next: Entry | undefined;
  readonly record: Content;
}

interface Pass {
  readonly startedAt: number;
  readonly count: number;
}

/**
 * Checks what etcd-cleanup promises (G1 to G5): by the answers that the look was given, read here anew, and by who really
 * runs. Where somebody without any right to changed its record, it knows less than was so: it may wait longer, and begin
 * another pass.
 */
export class CleanupOracles implements Witness {
  readonly #tally: Tally;
  /** When a look first found a record, in this revision, without anybody: by `<key>@<revision>`. */
  #sightings: Readonly<Record<string, number>> = {};
  /** The pass that is under way, by the Shard's uid. */
  #passes: Readonly<Record<string, Pass>> = {};
  /** What the record has authorised: since when it does no more, `null` as long as it does. By `<pooler>@<revision>`. */
  #acts: Readonly<Record<string, number | null>> = {};
  #isTampered = false;
  /** The API server's own clock was off: waits that it measures may be short. */
  #isSkewed = false;

  constructor(tally: Tally) {
    this.#tally = tally;
  }

  fork(): CleanupOracles {
    const copy = new CleanupOracles(this.#tally);
    copy.#sightings = this.#sightings;
    copy.#passes = this.#passes;
    copy.#acts = this.#acts;
    copy.#isTampered = this.#isTampered;
    copy.#isSkewed = this.#isSkewed;
    return copy;
  }

  get remembered(): object {
    return {
      sightings: this.#sightings,
      passes: this.#passes,
      acts: this.#acts,
      isTampered: this.#isTampered,
      isSkewed: this.#isSkewed,
    };
  }

  told(): void {
    // Nothing here is decided by words.
  }

  wrote({ actor, commit }: Write, world: World): void {
    this.#isSkewed ||= world.clocks.apiServerMs !== 0;
    const { kind, before, after } = commit;
    if (kind !== 'Shard' || before === null) {
      return;
    }
    const isMoved = recordIn(before) !== recordIn(after);
    this.#noteAct(actIn(after), world.now);
    if (actor.kind !== 'handler') {
      this.#isTampered ||= isMoved;
      return;
    }
    const by = actor.handler;
    if (by.step !== 'etcd-cleanup' || after === null || !isMoved) {
      return;
    }
    this.#noteSightings(by, world);
    const act = actIn(after);
    if (act !== undefined && act !== actIn(before)) {
      this.#checkPass(by, after as object as Shard);
    }
  }

  sent(operation: Operation, world: World): void {
    this.#isSkewed ||= world.clocks.apiServerMs !== 0;
    const by = world.inFlight.find(({ id }) => id === operation.by.id) ?? operation.by;
    if (by.step !== 'etcd-cleanup') {
      return;
    }
    const change = changeOf(operation, world);
    const evidence = evidenceOf(by);
    this.#tally.check(
      'G2',
      evidence !== undefined && evidence.gap === undefined,
      () => `${nameOf(by)} changes a record, though ${evidence?.gap ?? 'it has read nothing'}`,
    );
    this.#tally.check(
      'G5',
      change !== undefined,
      () => `${nameOf(by)} sends ${operation.call.name} and changes no pooler record`,
    );
    if (change === undefined || evidence === undefined) {
      return;
    }
    const name = `${nameOf(by)}: ${operation.call.name} ${change.key}`;
    this.#checkOwn(name, change, evidence, world);
    this.#checkGuarded(name, change, evidence);
    this.#checkUnexplained(name, change, evidence);
    this.#checkWait(name, change, evidence);
    this.#checkDead(name, change, by, world);
    this.#checkSilent(name, change, by);
    this.#checkAuthorised(name, change, by);
  }

  ended(by: InFlight, world: World): void {
    if (by.step === 'etcd-cleanup') {
      this.#noteSightings(by, world);
    }
  }

  /** G5: who lives is still said to. */
  atEnd(world: World): void {
    const standing = standingRecords(world);
    for (const { metadata } of world.api.list('Pod')) {
      const member = world.multigres.state.members[metadata.uid];
      if (member?.process !== 'running') {
        continue;
      }
      const found = standing.find(({ record }) => isSamePooler(record.id, member.id));
      this.#tally.check(
        'G5',
        found !== undefined && !isMarked(found.record),
        () => `${metadata.name} runs, and its record is ${found === undefined ? 'gone' : 'marked'}`,
      );
    }
  }

  /** Those of records that have moved since are forgotten: nobody can act on them any more. */
  #noteSightings(by: InFlight, world: World): void {
    const evidence = evidenceOf(by);
    if (evidence === undefined || evidence.gap !== undefined) {
      return;
    }
    const standing = new Set(standingRecords(world).map(nameOfRevision));
    const known = Object.entries(this.#sightings).filter(([name]) => standing.has(name));
    const found = evidence.records
      .filter((read) => whyExplained(read.record, evidence) === undefined)
      .map(({ key, revision }) => [`${key}@${revision}`, evidence.at] as const)
      .filter(([name]) => standing.has(name));
    this.#sightings = { ...Object.fromEntries(found), ...Object.fromEntries(known) };
  }

  /** What was authorised before is so no more. Who began when it was may end: nothing lives longer than a few minutes. */
  #noteAct(act: string | undefined, now: Instant): void {
    const former = Object.entries(this.#acts)
      .filter(
        ([, until]) => until === null || secondsBetween(until as Instant, now) < longestSeconds,
      )
      .map(([name, until]) => [name, until ?? now] as const);
    this.#acts = {
      ...Object.fromEntries(former),
      ...(act === undefined ? {} : { [act]: null }),
    };
  }

  /** G4: only what was written down, and so counted, while this handler ran or by itself. */
  #checkAuthorised(name: string, { record: { id }, old }: Change, by: InFlight): void {
    const until = this.#acts[`${id.cell}/${id.name}@${old.modRevision}`];
    this.#tally.check(
      'G4',
      this.#isTampered ||
        until === null ||
        (until !== undefined && until >= by.handler.start.startedAt),
      () => `${name}: what is authorised is ${JSON.stringify(this.#acts)}`,
    );
  }

  /** G4: passes follow one another no closer than the quiet time, and each is small. */
  #checkPass(by: InFlight, { metadata: { uid }, spec: { cleanup } }: Shard): void {
    const known = this.#passes[uid];
    const isNew =
      known === undefined || by.askedAt >= known.startedAt + millisecondsOf(cleanup.quietFor);
    const pass = isNew
      ? { startedAt: by.askedAt, count: 1 }
      : { startedAt: known.startedAt, count: known.count + 1 };
    this.#passes = { ...this.#passes, [uid]: pass };
    const records = evidenceOf(by)?.records.length ?? 0;
    const most = Math.min(cleanup.maxPerPass, Math.ceil(records / 3));
    this.#tally.check(
      'G4',
      pass.count <= most || this.#isSkewed || this.#isTampered,
      () => `${nameOf(by)} changes record ${pass.count} of a pass that may change ${most}`,
    );
  }

  /** G3: of this very shard, in one of its cells. */
  #checkOwn(name: string, { record, key }: Change, { shard }: Evidence, world: World): void {
    const { shard: own } = world.multigres.state.config;
    const cells = new Set(shard.spec.pools.flatMap((pool) => pool.cells));
    this.#tally.check(
      'G3',
      record.shard.shard === own.shard &&
        record.shard.database === own.database &&
        record.shard.tableGroup === own.tableGroup &&
        cells.has(record.id.cell) &&
        key.includes(`/${record.id.cell}/`),
      () => `${name}, which is of ${JSON.stringify(record.shard)} in ${record.id.cell}`,
    );
  }

  /** G5: the record is the one that was read before the pods, and nothing of it is lost that nobody here understands. */
  #checkGuarded(name: string, { key, old, next }: Change, { records }: Evidence): void {
    const read = records.find((each) => each.key === key);
    this.#tally.check(
      'X6',
      read !== undefined,
      () => `${name}, which was not read before the pods it is compared with`,
    );
    this.#tally.check(
      'G5',
      read?.revision === String(old.modRevision),
      () => `${name}, which has moved since the look began`,
    );
    const isKept = (value: Uint8Array): boolean => Buffer.from(value).includes(fieldOfTheFuture);
    const content = next === undefined ? undefined : decodePooler(next.value);
    this.#tally.check(
      'G5',
      next === undefined ||
        ((!isKept(old.value) || isKept(next.value)) &&
          content?.kind === 'decoded' &&
          isMarked(content.record)),
      () => `${name}: what it writes is not what was there with the mark of a stop`,
    );
  }

  /** G1: nobody in the namespace, nobody to be made, nobody who leaves. */
  #checkUnexplained(name: string, { record }: Change, evidence: Evidence): void {
    const why = whyExplained(record, evidence);
    this.#tally.check('G1', why === undefined, () => `${name}: ${why}`);
  }

  /** G1: two looks found it so, in this revision, and the time that the spec gives lay between. */
  #checkWait(name: string, change: Change, { shard, at }: Evidence): void {
    const { quietFor, deleteAfter } = shard.spec.cleanup;
    const quiet = millisecondsOf(quietFor);
    const wait = change.next === undefined ? Math.max(quiet, millisecondsOf(deleteAfter)) : quiet;
    const { key, old } = change;
    const first = this.#sightings[`${key}@${old.modRevision}`];
    this.#tally.check(
      'G1',
      this.#isSkewed || (first !== undefined && at - first >= wait),
      () =>
        `${name} after ${first === undefined ? 'no look' : `${secondsBetween(first as Instant, at)} s`}, and not ${wait / 1000} s`,
    );
    this.#tally.check('G1', shard.spec.cleanup.enabled, () => `${name}, and cleanup is off`);
  }

  /**
   * G5: its pooler does not run, by what is really so. One that runs and has yet to write its record is not who the record
   * is of. What is deleted has the mark, and the cohort does without it.
   */
  #checkDead(name: string, { key, record, next }: Change, by: InFlight, world: World): void {
    const { members, outbox } = world.multigres.state;
    const alive = Object.values(members).find(
      ({ id, process }) =>
        isSamePooler(id, record.id) && (process === 'running' || process === 'stopping'),
    );
    const isOwn =
      alive !== undefined &&
      !outbox.some((write) => write.key === key && write.podUid === alive.pod.uid);
    this.#tally.check('G5', !isOwn, () => `${name}, whose pooler is ${alive?.process}`);
    const isSetAside =
      record.lifecycle === 'quarantined' ||
      (record.generation === 'legacy' && record.role === 'none');
    this.#tally.check('G5', !isSetAside, () => `${name}, which was put aside`);
    const truths = lookOf(by).flatMap(({ truth }) => truth ?? []);
    const isIn = (ids: readonly Content['id'][]): boolean =>
      ids.some((id) => isSamePooler(id, record.id));
    this.#tally.check(
      'G5',
      truths.some(
        ({ leader, cohort }) =>
          leader !== null && !isIn([leader]) && (next !== undefined || !isIn(cohort)),
      ),
      () => `${name}, which leads or has a vote`,
    );
    this.#tally.check('G5', next !== undefined || isMarked(record), () => `${name} without a mark`);
  }

  /** G5: it was asked and did not answer, while another did. */
  #checkSilent(name: string, { record: { id } }: Change, by: InFlight): void {
    const asked = lookOf(by).filter(({ call }) => call.name === 'status');
    const own = asked.filter(({ call }) => call.path.endsWith(`/${id.cell}/${id.name}/status`));
    this.#tally.check(
      'G5',
      own.length > 0 &&
        own.every(({ status }) => status !== 200) &&
        asked.some(({ status }) => status === 200),
      () => `${name}, and nobody knows whether it is silent`,
    );
  }
}

/** Longer than any handler, or any request of one, is under way. */
const longestSeconds = 300;

const annotation = recordAnnotation('etcd-cleanup');

type Annotated = {
  readonly metadata: { readonly annotations?: { readonly [key: string]: string } };
};

function recordIn(object: Annotated | null): string | undefined {
  return object?.metadata.annotations?.[annotation];
}

/** `<cell>/<name>@<revision>`: the one record that may be changed; none, too, where nobody can read what is written. */
function actIn(object: Annotated | null): string | undefined {
  try {
    const { data } = JSON.parse(recordIn(object) ?? 'null') as {
      readonly data: { readonly act?: { readonly pooler: string; readonly rev: string } };
    };
    return data.act === undefined ? undefined : `${data.act.pooler}@${data.act.rev}`;
  } catch {
    return undefined;
  }
}

function nameOfRevision({ key, modRevision }: { key: string; modRevision: string }): string {
  return `${key}@${modRevision}`;
}

/** What a graceful stop leaves, as either generation says it. */
function isMarked({ generation, lifecycle, serving, role }: Content): boolean {
  return generation === 'legacy'
    ? serving === 'disabled'
    : lifecycle === 'shutdown' && serving === 'disabled' && role === 'none';
}

/** What a transaction has just done, whatever it compared. */
function changeOf({ question }: Operation, { etcd }: World): Change | undefined {
  const body = (question.to === 'cluster' ? question.request.body : {}) as {
    readonly success?: readonly {
      readonly request_put?: { readonly key: string };
      readonly request_delete_range?: { readonly key: string };
    }[];
  };
  const [done] = body.success ?? [];
  const encoded = done?.request_put?.key ?? done?.request_delete_range?.key ?? '';
  const key = Buffer.from(encoded, 'base64');
  const range = etcd.range({ key, revision: etcd.revision - 1 });
  const [old] = range.kind === 'range' ? range.entries : [];
  const decoded = old === undefined ? undefined : decodePooler(old.value);
  return old === undefined || decoded?.kind !== 'decoded'
    ? undefined
    : { key: key.toString(), old, next: etcd.read(key.toString()), record: decoded.record };
}

interface Kv {
  readonly key: string;
  readonly value?: string;
  readonly mod_revision: string;
}

/** The evidence of the last look; none where it has not come to the pods. */
function evidenceOf(by: InFlight): Evidence | undefined {
  const look = lookOf(by);
  const shard = look[0]?.body as Shard | undefined;
  const begin = look.findIndex(({ call }) => call.name === 'list Pod');
  if (shard?.spec === undefined || begin === -1) {
    return undefined;
  }
  const ranges = look.slice(0, begin).filter(({ call }) => call.name === 'range');
  const lists = look.slice(begin).filter(({ call }) => call.name === 'list Pod');
  const members = lastWhole(lists.filter(({ call }) => call.selector !== undefined));
  const pods = lastWhole(lists.filter(({ call }) => call.selector === undefined));
  const records = ranges.flatMap(recordsIn).filter(({ record }) => isOfShard(record, shard));
  return {
    shard,
    at: look[begin]?.at ?? (0 as Instant),
    records,
    gap: gapInCells(ranges, shard) ?? gapInPods(members, pods),
    members: members ?? [],
    pods: [...(members ?? []), ...(pods ?? [])],
  };
}

function isOfShard({ shard: { tableGroup, shard } }: Content, { spec }: Shard): boolean {
  return tableGroup === spec.tableGroup && shard === spec.shard;
}

/** Each cell is found and then read, so there are two answers for each. */
function gapInCells(ranges: readonly Seen[], { spec }: Shard): string | undefined {
  const cells = new Set(spec.pools.flatMap((pool) => pool.cells));
  const keys = ranges.flatMap(kvsOf).map(({ key }) => Buffer.from(key, 'base64').toString());
  const unknown = [...cells].find((cell) => !keys.some((key) => key.endsWith(`/${cell}/Cell`)));
  if (unknown !== undefined) {
    return `the cell ${unknown} was not found`;
  }
  return ranges.length < 2 * cells.size || ranges.some(({ status }) => status !== 200)
    ? 'not every cell could be read'
    : undefined;
}

/** Its own members, and then the whole namespace, because labels can be lost. */
function gapInPods(members: Pods | undefined, pods: Pods | undefined): string | undefined {
  if (members === undefined || pods === undefined) {
    return `the pods of the ${members === undefined ? 'shard' : 'namespace'} were not listed to the end`;
  }
  return members.length === 0 ? 'no pod has the label' : undefined;
}

type Pods = readonly KubeObject<'Pod'>[];

/** The last list that was read to its end, page by page. */
function lastWhole(pages: readonly Seen[]): Pods | undefined {
  let whole: Pods | undefined;
  let part: Pods = [];
  for (const { status, body } of pages) {
    const { items = [], metadata } = (body ?? {}) as {
      readonly items?: Pods;
      readonly metadata?: { readonly continue?: string };
    };
    part = status === 200 ? [...part, ...items] : [];
    if (status === 200 && (metadata?.continue ?? '') === '') {
      whole = part;
      part = [];
    }
  }
  return whole;
}

function kvsOf({ body, status }: Seen): readonly Kv[] {
  return status === 200 ? ((body as { readonly kvs?: readonly Kv[] }).kvs ?? []) : [];
}

function recordsIn(range: Seen): readonly Read[] {
  return kvsOf(range).flatMap(({ key, value = '', mod_revision: revision }) => {
    const name = Buffer.from(key, 'base64').toString();
    const decoded = decodePooler(Buffer.from(value, 'base64'));
    return name.endsWith('/Pooler') && decoded.kind === 'decoded'
      ? [{ key: name, revision, record: decoded.record }]
      : [];
  });
}

/** Whose record it is, as the look was told; none: nobody's. */
function whyExplained(record: Content, { shard, members, pods }: Evidence): string | undefined {
  const pod = pods.find(({ metadata }) => isOf(record, metadata.name));
  if (pod !== undefined) {
    return `${pod.metadata.name} is it`;
  }
  const drain = readDrainRecord(shard.metadata);
  const leaver = drain.kind === 'ours' && drain.record.state !== 'choosing' ? drain.record : null;
  if (
    leaver !== null &&
    (isSamePooler(leaver.data.pooler, record.id) || isOf(record, leaver.data.pod))
  ) {
    return `${leaver.data.pod} leaves`;
  }
  for (const pool of shard.spec.pools.filter(({ podTemplate }) => podTemplate !== undefined)) {
    for (const cell of pool.cells) {
      const there = members.filter(
        ({ metadata: { labels } }) =>
          labels?.[poolLabel] === pool.name && labels[cellLabel] === cell,
      );
      const base = podBaseName(shard.metadata.name, pool.name, cell);
      const names = Array.from({ length: 100 }, (_, index) => `${base}-${index}`);
      if (there.length < pool.replicasPerCell && names.some((name) => isOf(record, name))) {
        return `${pool.name}/${cell} is to get a member that may be it`;
      }
    }
  }
  return undefined;
}

/** By name, by hostname, by what stands before a dot of it, by the id that follows from the pod's name. */
function isOf({ id, hostname }: Content, pod: string): boolean {
  return (
    id.name === pod ||
    hostname === pod ||
    hostname.startsWith(`${pod}.`) ||
    id.name === poolerName(id.cell, pod)
  );
}
