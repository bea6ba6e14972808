import type { BackupConfigSnapshot } from '#functions/backup-config/snapshot.ts';
import { confirmRepository, recordAnnotation } from '#shared/api/annotations.ts';
import { type RepositoryPlace, hashOfPlace } from '#shared/api/repository.ts';
import { parseOwner } from '#shared/api/repository-owner.ts';
import type { KubeObject, ResourceKind } from '#shared/kube/resources.ts';
import {
  databaseEntries,
  keyOfRecord,
  placeIn,
  placeOfRecord,
  restOfRecord,
} from '#test/world/run/database-records.ts';
import { worldClusterId } from '#test/world/run/handler.ts';
import {
  type InFlight,
  type Operation,
  type Seen,
  type Witness,
  type World,
  type Write,
  nameOf,
} from '#test/world/run/world.ts';
import { lookOf, revisionIn } from './oracles.ts';
import type { Tally } from './tally.ts';

type Database = KubeObject<'Database'>;

/** What stands in each Secret of these workloads, and may stand nowhere else. */
export const canary = 'canary-of-a-secret-value';

/** Decisions that come before a write that an earlier look may have left under way. */
const beforeTheFence: ReadonlySet<string> = new Set([
  'TargetBeingDeleted',
  'Paused',
  'RecordUnreadable',
  'RecordForeign',
  'EarlierWriteFenced',
  'TopologyUnknown',
]);

/**
 * Checks what backup-config promises (C1 to C6): against the spec, what the bucket and etcd really hold, and what was read
 * in the look that wrote. Where somebody without any right to changed the record, what it knew of writes under way is lost.
 */
export class RepositoryOracles implements Witness {
  readonly #tally: Tally;
  /** The newest generation of each Database, by its uid, that a look has come to a conclusion for. */
  #concluded: Readonly<Record<string, number>> = {};
  /** Where the data plane keeps backups, by its key of the database, as the last write that was in order said. */
  #inForce: Readonly<Record<string, string>> = {};
  #isTampered = false;

  constructor(tally: Tally) {
    this.#tally = tally;
  }

  fork(): RepositoryOracles {
    const copy = new RepositoryOracles(this.#tally);
    copy.#concluded = this.#concluded;
    copy.#inForce = this.#inForce;
    copy.#isTampered = this.#isTampered;
    return copy;
  }

  get remembered(): object {
    return {
      concluded: this.#concluded,
      inForce: this.#inForce,
      isTampered: this.#isTampered,
    };
  }

  told(): void {
    // Nothing here is decided by words.
  }

  wrote({ actor, commit }: Write): void {
    const { kind, before, after } = commit;
    const isMoved = kind === 'Database' && before !== null && textOf(before) !== textOf(after);
    if (actor.kind !== 'handler') {
      this.#isTampered ||= isMoved;
      return;
    }
    const by = actor.handler;
    this.#checkNoSecret(after, () => `${nameOf(by)} writes a value of a Secret to ${kind}`);
    if (kind !== 'Database' || before === null || after === null) {
      return;
    }
    if (isMoved) {
      const known = by.seen.findLast(({ call, status }) => call.kind === kind && status === 200);
      const { metadata } = (known?.body ?? {}) as Partial<Database>;
      this.#tally.check(
        'X2',
        metadata?.uid === before.metadata.uid &&
          metadata.generation === before.metadata.generation &&
          metadata.annotations?.[key] === textOf(before),
        () => `${nameOf(by)} moves a record that is not as it read it`,
      );
    }
    this.#checkNotRefusedBefore(by);
    const was = JSON.stringify(configuredIn(before as object as Database));
    const is = configuredIn(after as object as Database);
    if (is?.status === 'True' && JSON.stringify(is) !== was) {
      this.#checkFound(by);
    }
  }

  sent(operation: Operation, world: World): void {
    const { by, call } = operation;
    if (by.step !== 'backup-config') {
      return;
    }
    const look = lookOf(by);
    const target = look[0]?.body as Database | undefined;
    this.#checkNotRefusedBefore(by);
    if (target === undefined) {
      return;
    }
    if (call.name === 'put owner') {
      this.#checkClaim(by, target, world);
      return;
    }
    this.#tally.check(
      'C5',
      call.name === 'rewrite',
      () => `${nameOf(by)} asks the data plane for ${call.name}`,
    );
    this.#checkRewrite(by, target, world);
  }

  ended(by: InFlight): void {
    if (by.step !== 'backup-config') {
      return;
    }
    this.#checkNoSecret(by.handler.looks, () => `${nameOf(by)} has a value of a Secret in a look`);
    const { ending, looks } = by.handler;
    const last = looks.at(-1);
    const isDone = ending?.kind === 'returned' && ending.response.batchItemFailures.length === 0;
    if (isDone && last !== undefined && !beforeTheFence.has(last.decision.reason)) {
      const { uid, generation } = (last.snapshot as BackupConfigSnapshot).database;
      this.#conclude(uid, generation);
    }
  }

  atEnd(world: World): void {
    const kinds: readonly ResourceKind[] = ['Database', 'Shard', 'Event'];
    this.#checkNoSecret(
      [kinds.map((kind) => world.api.list(kind)), world.sent],
      () => 'a value of a Secret is in an object or a hint',
    );
    const places = new Map<string, string>();
    for (const database of world.api.list('Database')) {
      const { metadata, status } = database;
      const wanted = placeOf(database);
      const condition = configuredIn(database);
      const place = JSON.stringify(placeIn(world.etcd, database));
      if (wanted === null) {
        continue;
      }
      if (condition?.status !== 'True') {
        this.#tally.check(
          'C5',
          condition?.observedGeneration === metadata.generation &&
            place === (this.#inForce[keyOfRecord(database)] ?? atFirst),
          () => `${metadata.name} is ${condition?.reason}, and backups go to ${place}`,
        );
        continue;
      }
      this.#tally.check(
        'C1',
        place === JSON.stringify(wanted) && status?.observedGeneration === metadata.generation,
        () => `${metadata.name} is called configured, and backups go to ${place}`,
      );
      const identity = identityOf(wanted);
      this.#tally.check(
        'C4',
        !places.has(identity) && ownerUid(world, wanted) === metadata.uid,
        () => `${metadata.name} and ${places.get(identity) ?? 'somebody else'} share ${identity}`,
      );
      places.set(identity, metadata.name);
    }
  }

  /** X2: a write that was refused for an old view was the last of its look. */
  #checkNotRefusedBefore(by: InFlight): void {
    this.#tally.check(
      'X2',
      lookOf(by)[0]?.status === 200,
      () => `${nameOf(by)} writes on after a write that was refused`,
    );
  }

  /** C4: an owner object is nobody's, or this very Database's, as it was read in the same look. */
  #checkClaim(by: InFlight, { metadata }: Database, { buckets: { lastWrite } }: World): void {
    const after = parseOwner(lastWrite?.after.text ?? '');
    const before = lastWrite?.before;
    const former = parseOwner(before?.text ?? '');
    const { name, namespace, uid } = metadata;
    this.#tally.check(
      'C4',
      after?.cluster === worldClusterId &&
        after.namespace === namespace &&
        after.name === name &&
        after.uid === uid,
      () => `${nameOf(by)} claims a prefix in the name of ${JSON.stringify(after)}`,
    );
    this.#tally.check(
      'C4',
      before === undefined ||
        (former?.cluster === worldClusterId &&
          former.namespace === namespace &&
          former.name === name),
      () => `${nameOf(by)} takes a prefix for ${name} that belongs to ${before?.text}`,
    );
    const read = lookOf(by).findLast(({ call }) => call.name === 'get owner');
    const known = read?.status === 200 ? (read.body as { readonly etag: string }).etag : undefined;
    this.#tally.check(
      'C4',
      (read?.status === 404 || read?.status === 200) && before?.etag === known,
      () => `${nameOf(by)} overwrites an owner object that is not as it was read`,
    );
  }

  #checkRewrite(by: InFlight, target: Database, { etcd }: World): void {
    const written = databaseEntries(etcd).find(({ modRevision }) => modRevision === etcd.revision);
    const range =
      written === undefined
        ? undefined
        : etcd.range({ key: Buffer.from(written.key), revision: etcd.revision - 1 });
    const [old] = range?.kind === 'range' ? range.entries : [];
    this.#tally.check(
      'C6',
      written !== undefined &&
        old !== undefined &&
        Buffer.from(written.key).toString() === keyOfRecord(target),
      () => `${nameOf(by)} writes something else than the record of its database`,
    );
    if (written === undefined || old === undefined) {
      return;
    }
    this.#tally.check(
      'C6',
      restOfRecord(old.value) === restOfRecord(written.value),
      () => `${nameOf(by)} changes more of the record than the location`,
    );
    const look = lookOf(by);
    const read = look.find(({ call }) => call.name === 'database');
    this.#tally.check(
      'C2',
      revisionIn(read?.body) === String(old.modRevision),
      () => `${nameOf(by)} writes a record that has moved since it was read`,
    );
    const { uid, generation = 0, annotations } = target.metadata;
    const before = placeOfRecord(old.value, target.spec.name);
    const after = placeOfRecord(written.value, target.spec.name);
    const isSame = JSON.stringify(before) === JSON.stringify(after);
    this.#tally.check(
      'C2',
      isSame || this.#isTampered || generation >= (this.#concluded[uid] ?? 0),
      () =>
        `${nameOf(by)} writes what generation ${generation} wants, and ${this.#concluded[uid]} is concluded`,
    );
    this.#conclude(uid, generation);
    if (isSame) {
      return;
    }
    this.#inForce = { ...this.#inForce, [keyOfRecord(target)]: JSON.stringify(after) };
    const wanted = placeOf(target);
    this.#tally.check(
      'C1',
      wanted !== null && JSON.stringify(after) === JSON.stringify(wanted),
      () => `${nameOf(by)} writes ${JSON.stringify(after)}, which its spec does not want`,
    );
    this.#checkFound(by);
    this.#tally.check(
      'C5',
      before === null ||
        after === null ||
        identityOf(before) === identityOf(after) ||
        annotations?.[confirmRepository] === hashOfPlace(after),
      () => `${nameOf(by)} moves backups away from ${JSON.stringify(before)} unasked`,
    );
  }

  /** C4, C5: the place was found in order in the same look, and marked as this Database's own. */
  #checkFound(by: InFlight): void {
    const look = lookOf(by);
    const target = look[0]?.body as Database | undefined;
    if (target === undefined || placeOf(target)?.type !== 's3') {
      return;
    }
    const owner = last(look, 'get owner');
    const { text = '' } = (owner?.status === 200 ? owner.body : {}) as { readonly text?: string };
    this.#tally.check(
      'C4',
      parseOwner(text)?.uid === target.metadata.uid,
      () => `${nameOf(by)} uses a prefix that it has not read to be its own`,
    );
    const probe = last(look, 'probe');
    const encryption = last(look, 'encryption');
    const mustEncrypt = target.spec.backup?.repository.encryption?.required === true;
    this.#tally.check(
      'C5',
      (probe?.status === 412 || probe?.status === 404) &&
        (!mustEncrypt || encryption?.status === 200),
      () =>
        `${nameOf(by)} uses a bucket that is not in order: ${probe?.status}, ${encryption?.status}`,
    );
  }

  #checkNoSecret(what: unknown, message: () => string): void {
    const text = JSON.stringify(what) ?? '';
    this.#tally.check('C3', !secretForms.some((form) => text.includes(form)), message);
  }

  #conclude(uid: string, generation: number): void {
    const newest = Math.max(generation, this.#concluded[uid] ?? 0);
    this.#concluded = { ...this.#concluded, [uid]: newest };
  }
}

const key = recordAnnotation('backup-config');

/** As it is, and as an API server keeps it. */
const secretForms = [canary, Buffer.from(canary).toString('base64').slice(0, 24)];

/** Where the data plane keeps backups before anybody says anything. */
const atFirst = JSON.stringify({ type: 'filesystem', path: '/backups' });

function textOf(object: Write['commit']['before']): string | undefined {
  return object?.metadata.annotations?.[key];
}

function last(look: readonly Seen[], name: string): Seen | undefined {
  return look.findLast(({ call }) => call.name === name);
}

function configuredIn({ status }: Database) {
  return status?.conditions?.find(({ type }) => type === 'BackupConfigured');
}

/** What a spec says, read without the code that ships. */
export function placeOf({ metadata, spec }: Database): RepositoryPlace | null {
  const repository = spec.backup?.repository;
  if (repository?.filesystem !== undefined) {
    return { type: 'filesystem', path: repository.filesystem.path };
  }
  const s3 = repository?.s3;
  return s3 === undefined
    ? null
    : {
        type: 's3',
        bucket: s3.bucket,
        region: s3.region,
        endpoint: s3.endpoint ?? '',
        keyPrefix: s3.keyPrefix ?? `${metadata.namespace}/${metadata.name}`,
        usesEnvironment: s3.credentialsSecret !== undefined,
      };
}

function identityOf(place: RepositoryPlace): string {
  return place.type === 's3'
    ? ['s3', place.endpoint, place.bucket, place.keyPrefix].join(' ')
    : `filesystem ${place.path}`;
}

/** Whose a prefix is, as its bucket really has it. */
export function ownerUid(world: World, place: RepositoryPlace): string | undefined {
  const objects = place.type === 's3' ? world.buckets.get(place.bucket)?.objects : undefined;
  const found =
    place.type === 's3' ? objects?.[`${place.keyPrefix}/millrace-owner.json`] : undefined;
  return parseOwner(found?.text ?? '')?.uid;
}
