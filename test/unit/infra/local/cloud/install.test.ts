import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { findMissingPython, obtainCloudPython } from '#infra/local/cloud/install.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-cloud-install-'));
});

afterEach(() => rmSync(folder, { recursive: true }));

/** A machine whose `python3` is this shell script, or has none. */
function aMachine(python?: string) {
  const programs = join(folder, 'bin');
  mkdirSync(programs, { recursive: true });
  if (python !== undefined) {
    writeFileSync(join(programs, 'python3'), `#!/bin/sh\n${python}\n`);
    chmodSync(join(programs, 'python3'), 0o755);
  }
  const path = python === undefined ? programs : `${programs}:/usr/bin:/bin`;
  return { cacheDir: join(folder, 'cache'), buildEnvironment: { PATH: path } };
}

/** Makes an environment as `python3 -m venv` does, whose Python does what is said here when it is asked to install. */
function pythonThatInstalls(how: string): string {
  return `mkdir -p "$3/bin" && printf '#!/bin/sh\\n${how}\\n' > "$3/bin/python" && chmod +x "$3/bin/python"`;
}

describe('whether the AWS stand-in can run', () => {
  test('a machine without Python says what is needed', async () => {
    const missing = await findMissingPython(aMachine());

    expect(missing).toMatch(/no usable python3 .* Python 3\.11 or newer .* venv and ensurepip/);
  });

  test('a Python without the modules for environments is not usable', async () => {
    const missing = await findMissingPython(aMachine('exit 1'));

    expect(missing).toMatch(/no usable python3/);
  });

  test.each([
    ['3.10', /python3 is Python 3\.10; Python 3\.11 or newer/],
    ['2.12', /python3 is Python 2\.12/],
  ])('Python %s is too old', async (version, why) => {
    const missing = await findMissingPython(aMachine(`echo ${version}`));

    expect(missing).toMatch(why);
  });

  test.each(['3.11', '3.14', '4.0'])('Python %s will do', async (version) => {
    const missing = await findMissingPython(aMachine(`echo ${version}`));

    expect(missing).toBeUndefined();
  });

  test('without Python, what was installed before will do', async () => {
    await obtainCloudPython(undefined, aMachine(pythonThatInstalls('exit 0')));
    rmSync(join(folder, 'bin'), { recursive: true });

    const missing = await findMissingPython(aMachine());

    expect(missing).toBeUndefined();
  });
});

describe('the environment', () => {
  test('is made once, and of the pinned files alone', async () => {
    const told = join(folder, 'told');
    const machine = aMachine(pythonThatInstalls(`echo "$@" >> ${told}`));

    const first = await obtainCloudPython(undefined, machine);
    const second = await obtainCloudPython(undefined, machine);

    const commands = readFileSync(told, 'utf8').trim().split('\n');
    expect(second).toBe(first);
    expect(commands).toHaveLength(1);
    expect(commands[0]).toMatch(
      /--no-deps --require-hashes --only-binary :all: .*requirements\.txt/,
    );
  });

  test('that cannot be made is explained with pip’s last lines, and nothing of it stays', async () => {
    const machine = aMachine(pythonThatInstalls('echo THESE PACKAGES DO NOT MATCH; exit 1'));

    const obtaining = obtainCloudPython(undefined, machine);

    await expect(obtaining).rejects.toThrow(/ended with code 1:\nTHESE PACKAGES DO NOT MATCH/);
    expect(readdirSync(machine.cacheDir)).toEqual([]);
  });

  test('of two that are made at once is one', async () => {
    const machine = aMachine(pythonThatInstalls('exit 0'));

    const pythons = await Promise.all([
      obtainCloudPython(undefined, machine),
      obtainCloudPython(undefined, machine),
    ]);

    expect(new Set(pythons).size).toBe(1);
    expect(readdirSync(machine.cacheDir)).toHaveLength(1);
  });
});
