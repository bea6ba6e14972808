import { chmod, mkdir, mkdtemp, readFile, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { findMissingProgram, obtainProgram } from '#infra/local/control-plane/binaries.ts';
import type { BinarySettings } from '#infra/local/control-plane/config.ts';
import { programs } from '#infra/local/control-plane/program.ts';

let dir: string;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'millrace-binaries-test-'));
});

afterEach(async () => {
  await rm(dir, { recursive: true, force: true });
});

const { version } = programs.etcd;
const cachedFolder = () =>
  join(dir, 'cache', `etcd-${version}-${process.platform}-${process.arch}`);
const cached = () => join(cachedFolder(), 'etcd');
const inAssets = () => join(dir, 'assets', 'etcd');

/** A machine whose `go` is the script, if any; where nothing was built before. */
async function aMachine(go?: string): Promise<BinarySettings> {
  if (go !== undefined) {
    await place(join(dir, 'bin', 'go'), `#!/bin/sh\n${go}`);
    await chmod(join(dir, 'bin', 'go'), 0o755);
  }
  return {
    assetsDir: join(dir, 'assets'),
    cacheDir: join(dir, 'cache'),
    buildEnvironment: {
      PATH: go === undefined ? join(dir, 'bin') : `${join(dir, 'bin')}:/usr/bin:/bin`,
    },
  };
}

async function place(path: string, content: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, content);
}

/** Acts as Go: notes each call in the file `calls`, and "compiles" in three tenths of a second. */
const workingGo = () => `
if [ "$1" = env ]; then echo go1.26.8; exit 0; fi
echo "$PWD $*" >> ${join(dir, 'calls')}
for word; do
  [ "$previous" = -o ] && made="$word"
  previous="$word"
done
printf half > "$made"; sleep 0.3; printf whole > "$made"
`;

describe('a program', () => {
  test('is taken from KUBEBUILDER_ASSETS first', async () => {
    const machine = await aMachine(workingGo());
    await place(inAssets(), 'provided');
    await place(cached(), 'cached');

    expect(await obtainProgram('etcd', undefined, machine)).toBe(inAssets());
  });

  test('is taken from the cache when KUBEBUILDER_ASSETS does not hold it', async () => {
    const machine = await aMachine(workingGo());
    await place(join(dir, 'assets', 'kube-apiserver'), 'provided');
    await place(cached(), 'cached');

    expect(await obtainProgram('etcd', undefined, machine)).toBe(cached());
    expect(await readFile(cached(), 'utf8')).toBe('cached');
  });

  test('is built once in the folder of its pinned module, and nothing else is left', async () => {
    const machine = await aMachine(workingGo());

    const built = await obtainProgram('etcd', undefined, machine);
    const again = await obtainProgram('etcd', undefined, machine);

    const calls = (await readFile(join(dir, 'calls'), 'utf8')).trimEnd().split('\n');
    expect([built, again]).toEqual([cached(), cached()]);
    expect(await readFile(cached(), 'utf8')).toBe('whole');
    expect(await readdir(cachedFolder())).toEqual(['etcd']);
    expect(calls).toHaveLength(1);
    expect(calls[0]).toMatch(new RegExp(`^${programs.etcd.moduleDir} build -trimpath `));
    expect(calls[0]).toMatch(/ go\.etcd\.io\/etcd\/server\/v3$/);
  });

  test('is built once when two ask for it at the same time', async () => {
    const machine = await aMachine(workingGo());
    const ask = () => obtainProgram('etcd', undefined, machine);

    const paths = await Promise.all([ask(), ask()]);

    expect(paths).toEqual([cached(), cached()]);
    expect((await readFile(join(dir, 'calls'), 'utf8')).trimEnd().split('\n')).toHaveLength(1);
  });

  test('tells what is built, how long that takes and that it is only this once', async () => {
    const machine = await aMachine(workingGo());
    const activities = new Set<string>();

    await obtainProgram('etcd', ({ activity }) => activities.add(activity), machine);

    expect([...activities].at(-1)).toBe(
      `building etcd ${version} from source (only this once, about 1 min on two cores)`,
    );
  });

  test('is built though a builder that died left its mark', async () => {
    const machine = await aMachine(workingGo());
    await place(`${cached()}.building`, '');
    const longAgo = new Date(Date.now() - 60_000);
    await utimes(`${cached()}.building`, longAgo, longAgo);

    const built = await obtainProgram('etcd', undefined, machine);

    expect(await readFile(built, 'utf8')).toBe('whole');
  });

  test('that does not compile is reported with what the compiler said, and leaves nothing', async () => {
    const machine = await aMachine(`
      if [ "$1" = env ]; then echo go1.26.0; exit 0; fi
      echo "server.go:1: syntax error" >&2; exit 2
    `);

    const built = obtainProgram('etcd', undefined, machine);

    await expect(built).rejects.toThrow(/ended with code 2:\nserver\.go:1: syntax error$/);
    expect(await readdir(cachedFolder())).toEqual([]);
  });
});

describe('without any way to have a program', () => {
  test('the message names all three ways and what was found at each', async () => {
    const machine = await aMachine();

    const obtained = obtainProgram('etcd', undefined, machine);

    await expect(obtained).rejects.toThrow(
      [
        'there is no etcd to run, and any one of these would do:',
        `  - KUBEBUILDER_ASSETS: ${join(dir, 'assets')} holds no etcd`,
        `  - cache: there is no ${cached()}`,
        '  - build from source: no go on the PATH; Go 1.26 or newer is needed (https://go.dev/dl)',
      ].join('\n'),
    );
  });

  test('an unset KUBEBUILDER_ASSETS is named as such', async () => {
    const { assetsDir: _unset, ...machine } = await aMachine();

    await expect(obtainProgram('etcd', undefined, machine)).rejects.toThrow(
      '  - KUBEBUILDER_ASSETS: not set',
    );
  });

  test.each([
    ['echo go1.25.3', 'found go1.25.3; Go 1.26 or newer is needed'],
    ['echo devel', 'found devel; Go 1.26 or newer is needed'],
    [
      'echo "go.mod requires go >= 1.26.0" >&2; exit 1',
      'go refused: go.mod requires go >= 1.26.0;',
    ],
  ])('a Go that says `%s` is turned down', async (go, why) => {
    const machine = await aMachine(go);

    await expect(obtainProgram('etcd', undefined, machine)).rejects.toThrow(
      `  - build from source: ${why}`,
    );
  });

  test('the first program that is missing is told before anything is started', async () => {
    const machine = await aMachine();
    await place(inAssets(), 'provided');
    await place(join(dir, 'assets', 'kube-apiserver'), 'provided');

    const missing = await findMissingProgram(machine);

    expect(missing?.program).toBe('kube-controller-manager');
  });

  test.each(['go1.26.0', 'go1.27rc1', 'go2.0'])('nothing is missing with %s', async (go) => {
    const machine = await aMachine(`echo ${go}`);

    expect(await findMissingProgram(machine)).toBeUndefined();
  });
});
