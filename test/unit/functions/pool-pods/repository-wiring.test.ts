import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Database } from '#shared/api/database.ts';
import type { ManagedPool } from '#shared/api/shard.ts';
import {
  type RepositoryWiring,
  mountsSharedClaim,
  wired,
  wiringOf,
} from '#functions/pool-pods/repository-wiring.ts';
import { aTemplate } from '#test/builders/shard.ts';

type PodSpec = ManagedPool['podTemplate']['spec'];
type Backup = NonNullable<Database['spec']['backup']>;
type S3 = NonNullable<Backup['repository']['s3']>;

const storage = { size: '50Gi', accessModes: ['ReadWriteMany' as const] };
const bucket = { bucket: 'backups', region: 'eu-west-1' };
const keys: RepositoryWiring = { kind: 'keys', secret: 'backup-keys' };
const identity: RepositoryWiring = { kind: 'identity', serviceAccount: 'backups' };
const shared: RepositoryWiring = { kind: 'sharedClaim', path: '/backups', storage };

function s3(changes: Partial<S3> = {}): { readonly backup: Backup } {
  return { backup: { repository: { type: 's3', s3: { ...bucket, ...changes } } } };
}

function filesystem(path: string): { readonly backup: Backup } {
  return { backup: { repository: { type: 'filesystem', filesystem: { path, storage } } } };
}

/** Two containers and an init container; the exporter does not work on the files. */
function aPodSpec(): PodSpec {
  const mountsData = { volumeMounts: [{ name: 'data', mountPath: '/data' }] };
  return {
    initContainers: [
      { name: 'prepare', image: 'pooler:1', ...mountsData },
      { name: 'wait', image: 'wait:1' },
    ],
    containers: [
      { name: 'pooler', image: 'pooler:1', ...mountsData },
      { name: 'exporter', image: 'exporter:1' },
    ],
    volumes: [{ name: 'scratch', emptyDir: {} }],
  };
}

function containerOf(spec: PodSpec, name: string) {
  return [...spec.containers, ...(spec.initContainers ?? [])].find(
    (container) => container.name === name,
  );
}

const keyVariables = ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'].map((key) => ({
  name: key,
  valueFrom: { secretKeyRef: { name: 'backup-keys', key } },
}));
const backupVolume = {
  name: 'backup',
  persistentVolumeClaim: { claimName: 'backup-data-orders' },
};

describe('what a Database asks for', () => {
  test.each<[string, Pick<Database['spec'], 'backup'>, RepositoryWiring]>([
    ['nothing without a repository', {}, { kind: 'none' }],
    ['nothing of a bucket that the machine may use', s3(), { kind: 'none' }],
    ['the keys of a Secret', s3({ credentialsSecret: 'backup-keys' }), keys],
    ['a service account', s3({ serviceAccountName: 'backups' }), identity],
    [
      'the keys where both are named, as the data plane is told',
      s3({ credentialsSecret: 'backup-keys', serviceAccountName: 'backups' }),
      keys,
    ],
    [
      'the keys also of a bucket that would be refused today',
      s3({ bucket: 'Not_A_Bucket', credentialsSecret: 'backup-keys' }),
      keys,
    ],
    ['a claim that all share', filesystem('/backups'), shared],
    ['nothing at a path that leads elsewhere', filesystem('/backups/../etc'), { kind: 'none' }],
    [
      'nothing of a file system that is not described',
      { backup: { repository: { type: 'filesystem' } } },
      { kind: 'none' },
    ],
    [
      'nothing of a bucket that is not described',
      { backup: { repository: { type: 's3' } } },
      { kind: 'none' },
    ],
  ])('is %s', (_what, spec, expected) => {
    expect(wiringOf(spec)).toEqual(expected);
  });
});

describe('keys', () => {
  test('go by reference into the containers that mount data, and into no other', () => {
    const spec = wired(aPodSpec(), keys, 'orders');

    expect(containerOf(spec, 'pooler')?.env).toEqual(keyVariables);
    expect(containerOf(spec, 'prepare')?.env).toEqual(keyVariables);
    expect(containerOf(spec, 'exporter')).toEqual(containerOf(aPodSpec(), 'exporter'));
    expect(containerOf(spec, 'wait')).toEqual(containerOf(aPodSpec(), 'wait'));
    expect(spec.volumes).toEqual(aPodSpec().volumes);
  });

  test('go into a container that mounts data as a device', () => {
    const spec: PodSpec = {
      containers: [{ name: 'pooler', volumeDevices: [{ name: 'data', devicePath: '/dev/xvda' }] }],
    };

    expect(wired(spec, keys, 'orders').containers[0]?.env).toEqual(keyVariables);
  });

  test('leave a variable that the container sets itself', () => {
    const { containers } = aTemplate();
    const own = [
      { name: 'AWS_ACCESS_KEY_ID', value: 'mine' },
      { name: 'OTHER', value: 'x' },
    ];
    const spec = { containers: containers.map((container) => ({ ...container, env: own })) };

    expect(wired(spec, keys, 'orders').containers[0]?.env).toEqual([...own, keyVariables[1]]);
  });

  test('change nothing where the container sets both', () => {
    const { containers } = aTemplate();
    const env = keyVariables.map(({ name }) => ({ name, value: 'mine' }));
    const spec = { containers: containers.map((container) => ({ ...container, env })) };

    expect(wired(spec, keys, 'orders')).toEqual(spec);
  });
});

describe('a service account', () => {
  test('is that of the pod', () => {
    expect(wired(aPodSpec(), identity, 'orders')).toEqual({
      ...aPodSpec(),
      serviceAccountName: 'backups',
    });
  });

  test.each([{ serviceAccountName: 'mine' }, { serviceAccount: 'mine' }])(
    'gives way to the template’s own: %o',
    (own) => {
      const spec = { ...aPodSpec(), ...own };

      expect(wired(spec, identity, 'orders')).toEqual(spec);
    },
  );

  test('stands where the template names an empty one', () => {
    const spec = { ...aPodSpec(), serviceAccountName: '' };

    expect(wired(spec, identity, 'orders').serviceAccountName).toBe('backups');
  });

  test('is given to no pod that does not work on the files', () => {
    const spec = { containers: [{ name: 'exporter' }] };

    expect(wired(spec, identity, 'orders')).toEqual(spec);
  });
});

describe('a file system', () => {
  test('is mounted at its path by whoever mounts data', () => {
    const spec = wired(aPodSpec(), shared, 'orders');
    const mounts = [
      { name: 'data', mountPath: '/data' },
      { name: 'backup', mountPath: '/backups' },
    ];

    expect(containerOf(spec, 'pooler')?.volumeMounts).toEqual(mounts);
    expect(containerOf(spec, 'prepare')?.volumeMounts).toEqual(mounts);
    expect(containerOf(spec, 'exporter')).toEqual(containerOf(aPodSpec(), 'exporter'));
    expect(spec.volumes).toEqual([{ name: 'scratch', emptyDir: {} }, backupVolume]);
  });

  test('is mounted as the template has it, where it mounts it by name', () => {
    const { containers } = aTemplate();
    const agent = {
      name: 'agent',
      volumeMounts: [{ name: 'backup', mountPath: '/repo', subPath: 'x' }],
    };
    const spec = { containers: [...containers, agent] };

    const result = wired(spec, shared, 'orders');

    expect(result.containers).toEqual(spec.containers);
    expect(result.volumes).toEqual([backupVolume]);
  });

  test('takes the place of the template’s volume of its name', () => {
    const spec = { ...aPodSpec(), volumes: [{ name: 'backup', emptyDir: {} }] };

    expect(wired(spec, shared, 'orders').volumes).toEqual([backupVolume]);
    expect(wired(spec, keys, 'orders').volumes).toEqual(spec.volumes);
    expect(wired(spec, { kind: 'none' }, 'orders')).toBe(spec);
  });

  test.each(['/backups', '/backups/'])(
    'leaves a container alone that mounts something else there: %s',
    (mountPath) => {
      const { containers } = aTemplate();
      const own = { name: 'nfs', mountPath };
      const spec = {
        containers: containers.map((container) => ({
          ...container,
          volumeMounts: [...(container.volumeMounts ?? []), own],
        })),
        volumes: [{ name: 'nfs', emptyDir: {} }],
      };

      expect(wired(spec, shared, 'orders')).toEqual(spec);
      expect(mountsSharedClaim(spec, shared, 'orders')).toBe(false);
    },
  );

  test('is not there for a pod that does not work on the files', () => {
    const spec = {
      containers: [{ name: 'exporter' }],
      volumes: [{ name: 'backup', emptyDir: {} }],
    };

    expect(wired(spec, shared, 'orders')).toEqual(spec);
    expect(mountsSharedClaim(spec, shared, 'orders')).toBe(false);
  });

  test('is mounted by pods of a file system only', () => {
    const spec = {
      containers: [{ name: 'pooler', volumeMounts: [{ name: 'backup', mountPath: '/b' }] }],
    };

    expect(mountsSharedClaim(spec, shared, 'orders')).toBe(true);
    expect(mountsSharedClaim(spec, keys, 'orders')).toBe(false);
  });
});

const anyContainer = fc.record(
  {
    name: fc.constantFrom('a', 'b', 'c'),
    env: fc.uniqueArray(
      fc.record({ name: fc.constantFrom('AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'X') }),
      { selector: ({ name }) => name },
    ),
    volumeMounts: fc.uniqueArray(
      fc.record({
        name: fc.constantFrom('data', 'backup', 'other'),
        mountPath: fc.constantFrom('/backups', '/data', '/x'),
      }),
      { selector: ({ mountPath }) => mountPath },
    ),
  },
  { requiredKeys: ['name'] },
);
const anySpec: fc.Arbitrary<PodSpec> = fc.record(
  {
    containers: fc.array(anyContainer, { minLength: 1, maxLength: 3 }),
    initContainers: fc.array(anyContainer, { maxLength: 2 }),
    volumes: fc.constantFrom([], [{ name: 'backup', emptyDir: {} }], [{ name: 'other' }]),
    serviceAccountName: fc.constantFrom('', 'mine'),
  },
  { requiredKeys: ['containers'] },
);
const anyWiring = fc.constantFrom<RepositoryWiring>({ kind: 'none' }, keys, identity, shared);

describe('any template', () => {
  test('is wired once and for all: doing it again changes nothing, nor the template itself', () => {
    fc.assert(
      fc.property(anySpec, anyWiring, (spec, wiring) => {
        const before = structuredClone(spec);
        const once = wired(spec, wiring, 'orders');

        expect(wired(once, wiring, 'orders')).toEqual(once);
        expect(spec).toEqual(before);
      }),
    );
  });

  test('keeps what it says itself, names nothing twice, and mounts no two things at one place', () => {
    fc.assert(
      fc.property(anySpec, anyWiring, (spec, wiring) => {
        const result = wired(spec, wiring, 'orders');
        const pairs = [
          ...spec.containers.map((own, at) => [own, result.containers[at]] as const),
          ...(spec.initContainers ?? []).map(
            (own, at) => [own, result.initContainers?.[at]] as const,
          ),
        ];

        for (const [own, made] of pairs) {
          const names = (made?.env ?? []).map(({ name }) => name);
          const paths = (made?.volumeMounts ?? []).map(({ mountPath }) => mountPath);
          expect(made?.env ?? []).toEqual(expect.arrayContaining([...(own.env ?? [])]));
          expect(made?.volumeMounts ?? []).toEqual(
            expect.arrayContaining([...(own.volumeMounts ?? [])]),
          );
          expect(new Set(names).size).toBe(names.length);
          expect(new Set(paths).size).toBe(paths.length);
        }
        const volumes = (result.volumes ?? []).map(({ name }) => name);
        expect(new Set(volumes).size).toBe(volumes.length);
      }),
    );
  });
});
