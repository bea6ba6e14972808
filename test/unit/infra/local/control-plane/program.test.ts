import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { bucketProgram } from '#infra/local/bucket/program.ts';
import { kubectlProgram, oldestGo, programs } from '#infra/local/control-plane/program.ts';

const all = [...Object.values(programs), kubectlProgram, bucketProgram];

describe.each(all)('$name', ({ version, moduleDir, package: path }) => {
  test('has the version its module is pinned to', async () => {
    const goMod = await readFile(join(moduleDir, 'go.mod'), 'utf8');

    const pinned = [
      ...goMod.matchAll(/^\s*(?:require )?(\S+) v(\S+)(?: \/\/ indirect)?$/gm),
    ].filter(([, module = '']) => path === module || path.startsWith(`${module}/`));

    expect(pinned.map(([, , pin]) => pin)).toEqual([version]);
  });

  test('needs the Go its module names', async () => {
    const goMod = await readFile(join(moduleDir, 'go.mod'), 'utf8');

    const [, major, minor] = /^go (\d+)\.(\d+)/m.exec(goMod) ?? [];

    expect({ major: Number(major), minor: Number(minor) }).toEqual(oldestGo);
  });

  test('is fixed in every module it is made of', async () => {
    const goSum = await readFile(join(moduleDir, 'go.sum'), 'utf8');

    expect(goSum).toContain(` v${version} h1:`);
  });
});
