import { describe, expect, test } from 'vitest';
import { type SettingsInput, settingsSchema } from '#infra/local/data-plane/settings.ts';

const node = {
  server: 'https://127.0.0.1:6443',
  token: 'a-token',
  etcdEndpoint: 'http://127.0.0.1:2379',
  dataDir: '/tmp/data-plane',
};

function problemOf(dataPlanes: SettingsInput['dataPlanes']): string | undefined {
  return settingsSchema.safeParse({ ...node, dataPlanes }).error?.issues[0]?.message;
}

function aDataPlane(name: string) {
  return { shardName: name, globalRoot: `/${name}/global`, cellRoot: `/${name}/{cell}` };
}

describe('the settings of a process', () => {
  test('with one data plane need nothing but where the cluster is', () => {
    const settings = settingsSchema.parse({ ...node, dataPlanes: [{}] });

    expect(settings.dataPlanes).toEqual([
      {
        seed: 1,
        cells: [],
        shard: { database: 'postgres', tableGroup: 'default', shard: '0-inf' },
        globalRoot: '/multigres/global',
        cellRoot: '/multigres/{cell}',
        requiredCount: 2,
        legacyPods: [],
        backupMs: { full: 6_000, differential: 3_000, incremental: 3_000 },
        adminPort: 0,
        controlPort: 0,
      },
    ]);
  });

  test('admit data planes that share neither pods nor keys', () => {
    expect(problemOf([aDataPlane('orders'), aDataPlane('users')])).toBeUndefined();
  });

  test('admit a data plane that keeps all its keys under one root', () => {
    const oneRoot = { ...aDataPlane('orders'), cellRoot: '/orders/global' };

    expect(problemOf([oneRoot, aDataPlane('users')])).toBeUndefined();
  });

  test('refuse none at all', () => {
    expect(problemOf([])).toBeDefined();
  });

  test.each([
    ['have no shard name', { globalRoot: '/users/global', cellRoot: '/users/{cell}' }],
    ['have the same shard name', { ...aDataPlane('users'), shardName: 'orders' }],
  ])('refuse data planes that %s', (_, second) => {
    expect(problemOf([aDataPlane('orders'), second])).toMatch(/shard name/);
  });

  test.each([
    ['one global root', { ...aDataPlane('users'), globalRoot: '/orders/global' }],
    ['one root for their cells', { ...aDataPlane('users'), cellRoot: '/orders/{cell}' }],
    ['a root below another’s', { ...aDataPlane('users'), cellRoot: '/orders/global/users' }],
  ])('refuse data planes with %s', (_, second) => {
    expect(problemOf([aDataPlane('orders'), second])).toMatch(/roots in etcd of their own/);
  });
});
