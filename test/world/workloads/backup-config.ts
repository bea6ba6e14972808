import { confirmRepository, recordAnnotation } from '#shared/api/annotations.ts';
import { ownerText } from '#shared/api/repository-owner.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import {
  RepositoryOracles,
  canary,
  ownerUid,
  placeOf,
} from '#test/world/oracles/repository-oracles.ts';
import { placeIn, registerDatabase } from '#test/world/run/database-records.ts';
import { worldNamespace } from '#test/world/run/handler.ts';
import { edit, remove } from '#test/world/run/person.ts';
import type { Edit, Workload } from '#test/world/run/workload.ts';
import type { World } from '#test/world/run/world.ts';
import { aWorld, databasePausedForAWhile, make } from './cluster.ts';

/** A bucket as people write it into a spec. */
interface Wanted {
  readonly bucket: string;
  readonly keyPrefix?: string;
  readonly mustEncrypt?: true;
}

const namespace = worldNamespace;
const keys = 'backup-keys';
const accessKeyId = 'AKIAWORLD';

/** Buckets that are in order, one that is not encrypted, one of which somebody else has the prefix. */
function makeBuckets(world: World): void {
  world.buckets.set('backups', { accessKeyId });
  world.buckets.set('elsewhere', { accessKeyId });
  world.buckets.set('open', { accessKeyId, isEncrypted: false, isVersioned: false });
  const text = ownerText({ cluster: 'another', namespace, name: 'main', uid: 'another' });
  const objects = { 'db/main/millrace-owner.json': { etag: '"theirs"', text } };
  world.buckets.set('taken', { accessKeyId, objects });
}

function aDatabase(options: { readonly batch?: number } = {}): Workload['create'] {
  return (tally) => {
    const world = aWorld(tally, { replicas: 1, steps: ['backup-config'], ...options });
    registerDatabase(world, globalRootOf(database(world)));
    makeBuckets(world);
    make(world, 'Secret', namespace, {
      metadata: { name: keys },
      stringData: { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: canary },
    });
    return world;
  };
}

function database(world: World, name = 'main'): KubeObject<'Database'> | undefined {
  return world.api.get('Database', namespace, name);
}

function globalRootOf(found: KubeObject<'Database'> | undefined): string {
  return found?.spec.dataPlane.topology.globalRoot ?? '';
}

/** A person writes where backups shall go. */
function want(world: World, { bucket, keyPrefix, mustEncrypt }: Wanted, name = 'main'): void {
  const s3 = { bucket, region: 'eu-west-1', keyPrefix: keyPrefix ?? null, credentialsSecret: keys };
  const encryption = mustEncrypt === undefined ? null : { required: true };
  edit(
    world,
    { kind: 'Database', namespace, name },
    { spec: { backup: { repository: { type: 's3', s3, encryption } } } },
  );
}

/** The person on duty: does what the condition says, as often as it says another thing. */
function confirmWhenAsked(world: World, name = 'main'): void {
  world.plan({
    name: `a person confirms the place of ${name}, as the condition says`,
    when: (at) => hashAskedFor(at, name) !== undefined,
    act: (at) => {
      const value = hashAskedFor(at, name) ?? '';
      edit(
        at,
        { kind: 'Database', namespace, name },
        { metadata: { annotations: { [confirmRepository]: value } } },
      );
      confirmWhenAsked(at, name);
    },
  });
}

/** None where it is given already, or the condition is about an earlier spec. */
function hashAskedFor(world: World, name: string): string | undefined {
  const found = database(world, name);
  const condition = conditionOf(found);
  const [, hash] =
    new RegExp(`${confirmRepository}=([0-9a-f]{12})`).exec(condition?.message ?? '') ?? [];
  return condition?.observedGeneration === found?.metadata.generation &&
    found?.metadata.annotations?.[confirmRepository] !== hash
    ? hash
    : undefined;
}

function conditionOf(found: KubeObject<'Database'> | undefined) {
  return found?.status?.conditions?.find(({ type }) => type === 'BackupConfigured');
}

/** What is missing until backups go where the spec says, to a place that is the Database's own. */
function missingPlace(world: World, name = 'main'): string[] {
  const found = database(world, name);
  const wanted = found === undefined ? null : placeOf(found);
  if (found === undefined || wanted === null) {
    return [`${name} wants nothing`];
  }
  const condition = conditionOf(found);
  const place = placeIn(world.etcd, found);
  const isSaid =
    condition?.status === 'True' && condition.observedGeneration === found.metadata.generation;
  return [
    ...(isSaid ? [] : [`${name} is ${condition?.reason}: ${condition?.message}`]),
    ...(JSON.stringify(place) === JSON.stringify(wanted)
      ? []
      : [`backups of ${name} go to ${JSON.stringify(place)}`]),
    ...(ownerUid(world, wanted) === found.metadata.uid ? [] : [`the prefix is not ${name}'s`]),
  ];
}

/** Deleted, and made again with the same spec: another uid, no record, no status, no confirmation. */
function recreate(world: World, name = 'main'): void {
  const found = database(world, name);
  if (found !== undefined) {
    remove(world, { kind: 'Database', namespace, name });
    make(world, 'Database', namespace, { metadata: { name }, spec: found.spec });
  }
}

const goesElsewhere: Edit = {
  name: 'the bucket elsewhere',
  act: (world) => want(world, { bucket: 'elsewhere' }),
};
const goesBack: Edit = {
  name: 'the bucket backups',
  act: (world) => want(world, { bucket: 'backups' }),
};
const madeAgain: Edit = { name: 'deleted and made again', act: (world) => recreate(world) };

const common = {
  steps: ['backup-config'],
  witnesses: [(tally) => new RepositoryOracles(tally)],
  bound: { deliveries: 120, perFault: 120 },
  firstFaultsInCi: 100,
} satisfies Partial<Workload>;

const alone = {
  ...common,
  create: aDatabase(),
  edits: [databasePausedForAWhile, goesElsewhere, goesBack, madeAgain],
  missing: (world) => missingPlace(world),
} satisfies Partial<Workload>;

/** Does each act once the one before has come to its end, or is refused. */
function oneAfterTheOther(world: World, acts: readonly ((at: World) => void)[]): void {
  const [act, ...others] = acts;
  if (act !== undefined) {
    act(world);
    world.later('people look at what came of it', 30, (at) => oneAfterTheOther(at, others));
  }
}

/** backup-config alone: one Database of which people want other things, and two that want the same. */
export const workloads: readonly Workload[] = [
  {
    ...alone,
    name: 'a first repository',
    begin: (world) => {
      want(world, { bucket: 'backups' });
      confirmWhenAsked(world);
    },
  },
  {
    ...alone,
    name: 'another bucket and back',
    begin: (world) => {
      confirmWhenAsked(world);
      oneAfterTheOther(world, [
        (at) => want(at, { bucket: 'backups' }),
        (at) => want(at, { bucket: 'elsewhere' }),
        (at) => want(at, { bucket: 'backups' }),
      ]);
    },
  },
  {
    ...alone,
    name: 'one edit after the other',
    begin: (world) => {
      confirmWhenAsked(world);
      want(world, { bucket: 'backups' });
      world.later('a person wants another bucket', 20, (at) => {
        want(at, { bucket: 'elsewhere' });
        // Back to what is in use, just when the data plane is about to be told of the other one.
        at.plan({
          name: 'a person takes it back',
          when: (later) => isApplying(later),
          act: (later) => want(later, { bucket: 'backups' }),
        });
      });
    },
  },
  {
    ...alone,
    name: 'the bucket is forbidden while the data plane is told',
    begin: (world) => {
      confirmWhenAsked(world);
      want(world, { bucket: 'backups' });
      world.later('a person wants another bucket', 20, (at) => {
        want(at, { bucket: 'elsewhere' });
        at.plan({ name: 'the buckets are forbidden', when: isApplying, act: forbidThenGoBack });
      });
    },
  },
  {
    ...alone,
    name: 'places that cannot be used in between',
    begin: (world) => {
      confirmWhenAsked(world);
      oneAfterTheOther(world, [
        (at) => want(at, { bucket: 'backups', mustEncrypt: true }),
        (at) => want(at, { bucket: 'nowhere' }),
        (at) => want(at, { bucket: 'open', mustEncrypt: true }),
        (at) => want(at, { bucket: 'taken' }),
        (at) => want(at, { bucket: 'open' }),
      ]);
    },
  },
  {
    ...alone,
    name: 'a database made again',
    begin: (world) => {
      confirmWhenAsked(world);
      oneAfterTheOther(world, [(at) => want(at, { bucket: 'backups' }), (at) => recreate(at)]);
    },
  },
  {
    ...common,
    name: 'two databases want one prefix',
    create: (tally) => {
      // One at a time, so that what a handler reads and writes is of one Database.
      const world = aDatabase({ batch: 1 })(tally);
      const main = database(world);
      if (main !== undefined) {
        const { topology, ...dataPlane } = main.spec.dataPlane;
        const spec = {
          ...main.spec,
          dataPlane: { ...dataPlane, topology: { ...topology, globalRoot: '/multigres/second' } },
        };
        make(world, 'Database', namespace, { metadata: { name: 'other' }, spec });
      }
      registerDatabase(world, globalRootOf(database(world, 'other')));
      return world;
    },
    begin: (world) => {
      for (const name of ['main', 'other']) {
        confirmWhenAsked(world, name);
        want(world, { bucket: 'backups', keyPrefix: 'shared' }, name);
        moveHomeWhenRefused(world, name);
      }
    },
    edits: [databasePausedForAWhile],
    missing: (world) => [...missingPlace(world), ...missingPlace(world, 'other')],
    missingUndisturbed: (world) => {
      const found = ['main', 'other'].map((name) => database(world, name));
      const own = found.filter((each) => each !== undefined && isAtHome(each));
      return own.length === 1 ? [] : [`${own.length} of two have got a prefix of their own`];
    },
  },
];

/** Whoever comes second gets a prefix of its own, a while after the condition says that it needs one. */
function moveHomeWhenRefused(world: World, name: string): void {
  world.plan({
    name: `a person reads whose the prefix is that ${name} wants`,
    when: (at) => conditionOf(database(at, name))?.reason === 'RepositoryOfOthers',
    act: (at) =>
      at.later(`a person gives ${name} a prefix of its own`, 90, (later) => {
        want(later, { bucket: 'backups', keyPrefix: `of/${name}` }, name);
      }),
  });
}

function isAtHome({ metadata, spec }: KubeObject<'Database'>): boolean {
  return spec.backup?.repository.s3?.keyPrefix === `of/${metadata.name}`;
}

/** Looks meanwhile find out nothing, and only then the spec goes back to what is in use. */
function forbidThenGoBack(world: World): void {
  const setForbidden = (at: World, isForbidden: boolean): void =>
    Object.keys(at.buckets.all).forEach((name) => at.buckets.set(name, { isForbidden }));
  setForbidden(world, true);
  world.later('the buckets are open again', 7, (at) => setForbidden(at, false));
  world.later('a person takes it back', 8, (at) => want(at, { bucket: 'backups' }));
}

/** The data plane is about to be told of the bucket elsewhere. */
function isApplying(world: World): boolean {
  const found = database(world);
  const record = found?.metadata.annotations?.[recordAnnotation('backup-config')] ?? '';
  const place = found === undefined ? null : placeOf(found);
  return record.includes('"applying"') && place?.type === 's3' && place.bucket === 'elsewhere';
}
