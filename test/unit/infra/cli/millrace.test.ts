import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { stepNames } from '#shared/api/steps.ts';
import { runMillrace } from './run-millrace.ts';

const commands = [
  'dev',
  'status',
  'explain',
  'relay',
  'manifests',
  'config',
  'doctor',
  'reset',
  'replay',
  'ui',
];

const kubeconfig = `
apiVersion: v1
kind: Config
current-context: staging
clusters:
- {name: one, cluster: {server: 'https://user:canary-4@127.0.0.1:1', certificate-authority-data: canary-0}}
contexts:
- {name: staging, context: {cluster: one, user: token}}
- {name: certificate, context: {cluster: one, user: certificate}}
- {name: program, context: {cluster: one, user: program}}
users:
- {name: token, user: {token: canary-1}}
- {name: certificate, user: {client-certificate-data: canary-2, client-key-data: canary-3}}
- {name: program, user: {exec: {command: aws, args: [--secret, canary-5], apiVersion: v1}}}
`;

let folder: string;
let file: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-cli-'));
  file = join(folder, 'kubeconfig');
  await writeFile(file, kubeconfig);
});

afterAll(() => rm(folder, { recursive: true }));

describe('the millrace command', { timeout: 30_000 }, () => {
  test('names every command in its help', async () => {
    const { exitCode, stdout } = await runMillrace(['--help']);

    expect(exitCode).toBe(0);
    for (const command of commands) {
      expect(stdout).toMatch(new RegExp(`^ {2}${command} `, 'm'));
    }
  });

  test.each(commands)('%s --help has an example and --json', async (command) => {
    const { exitCode, stdout } = await runMillrace([command, '--help']);

    expect(exitCode).toBe(0);
    expect(stdout).toMatch(new RegExp(`\\nExamples?:\\n {2}\\$ millrace ${command}`));
    expect(stdout).toContain('--json');
  });

  test('prints the version of the package', async () => {
    const manifest = await readFile(new URL('../../../../package.json', import.meta.url), 'utf8');

    const { exitCode, stdout } = await runMillrace(['--version']);

    expect(exitCode).toBe(0);
    expect(stdout.trim()).toBe((JSON.parse(manifest) as { version: string }).version);
  });

  test.each([
    ['no command', []],
    ['an unknown command', ['no-such-command']],
    ['an unknown option', ['config', '--no-such-option']],
    ['a missing argument', ['reset', 'shd/orders-0', '-n', 'db']],
    ['a missing namespace', ['reset', 'shd/orders-0', 'drain-step']],
  ])('exits 2 on %s and says so on stderr', async (_, words) => {
    const { exitCode, stdout, stderr } = await runMillrace(words);

    expect(exitCode).toBe(2);
    expect(stdout).toBe('');
    expect(stderr).not.toBe('');
  });

  test('an old Node is told so before anything else is loaded', async () => {
    const program = `
      Object.defineProperty(process.versions, 'node', { value: '22.18.0' });
      await import(${JSON.stringify(new URL('../../../../infra/cli/millrace.mjs', import.meta.url).href)});
    `;

    const { code, stderr } = await new Promise<{ code: unknown; stderr: string }>((resolve) => {
      execFile(
        process.execPath,
        ['--input-type=module', '--eval', program],
        (error, _stdout, stderr) => resolve({ code: error?.code, stderr }),
      );
    });

    expect(code).toBe(2);
    expect(stderr).toContain('millrace: it needs Node 24 or newer, and this is Node 22.18.0: ');
  });
});

describe('millrace config', { timeout: 30_000 }, () => {
  test('says where each value came from', async () => {
    const { exitCode, stdout } = await runMillrace(
      ['config', '--json', '--kubeconfig', file, '-n', 'db', '--namespace', 'app'],
      { MILLRACE_STAGE: 'blue', XDG_STATE_HOME: folder },
    );

    expect(exitCode).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      kubeconfig: { value: file, source: '--kubeconfig' },
      context: { value: 'staging', source: 'current-context' },
      server: { value: 'https://127.0.0.1:1', source: `kubeconfig ${file}` },
      namespaces: { value: ['db', 'app'], source: '--namespace' },
      stage: { value: 'blue', source: 'MILLRACE_STAGE' },
      dataDir: { value: join(folder, 'millrace', '<cluster id>'), source: 'XDG_STATE_HOME' },
      functionTimeoutSeconds: { value: 30, source: 'default' },
      sweepSeconds: { value: 300, source: 'default' },
      visibilitySeconds: { value: 180, source: 'default' },
    });
  });

  test.each(['staging', 'certificate', 'program'])(
    'C3: hides the secrets of the context %s',
    async (context) => {
      const words = ['config', '--kubeconfig', file, '--context', context];

      const human = await runMillrace(words);
      const json = await runMillrace([...words, '--json']);

      expect([human.exitCode, json.exitCode]).toEqual([0, 0]);
      expect(human.stdout).toContain('(hidden)');
      expect(human.stdout + human.stderr + json.stdout + json.stderr).not.toContain('canary');
    },
  );

  test('names all problems at once and repeats no secret', async () => {
    const broken = join(folder, 'broken');
    await writeFile(broken, 'users: [{token: canary-6}');

    const { exitCode, stderr } = await runMillrace(
      ['config', '--kubeconfig', broken, '--stage', 'No Stage', '-n', 'No_Namespace'],
      { MILLRACE_FUNCTION_TIMEOUT_SECONDS: 'soon', MILLRACE_VISIBILITY_SECONDS: '10' },
    );

    expect(exitCode).toBe(2);
    expect(stderr).toContain('5 problems');
    for (const name of [
      'kubeconfig',
      '--stage',
      '--namespace',
      'MILLRACE_FUNCTION_TIMEOUT_SECONDS',
      'MILLRACE_VISIBILITY_SECONDS',
    ]) {
      expect(stderr).toContain(`  - ${name}: `);
    }
    expect(stderr).not.toContain('canary');
  });

  test('names the contexts there are where the one asked for is not among them', async () => {
    const { exitCode, stderr } = await runMillrace([
      'config',
      '--kubeconfig',
      file,
      '--context',
      'production',
    ]);

    expect(exitCode).toBe(2);
    expect(stderr).toContain('it has: staging, certificate, program');
  });

  test('writes no colour where stdout is no terminal', async () => {
    const { stdout } = await runMillrace(['config', '--kubeconfig', file]);

    expect(stdout).not.toContain('\u001B');
  });
});

describe('millrace manifests', { timeout: 30_000 }, () => {
  test('prints the custom resource definitions as YAML', async () => {
    const { exitCode, stdout } = await runMillrace(['manifests']);

    const documents = parseAllDocuments(stdout);
    expect(exitCode).toBe(0);
    expect(documents.flatMap((document) => document.errors)).toEqual([]);
    expect(documents.map((document) => document.getIn(['metadata', 'name']))).toEqual([
      'databases.millrace.dev',
      'goverseclusters.millrace.dev',
      'shards.millrace.dev',
    ]);
  });

  test('--json prints the same as one List', async () => {
    const yaml = await runMillrace(['manifests']);
    const json = await runMillrace(['manifests', '--json']);

    expect(JSON.parse(json.stdout)).toEqual({
      apiVersion: 'v1',
      kind: 'List',
      items: parseAllDocuments(yaml.stdout).map((document) => document.toJS() as unknown),
    });
  });
});

describe('millrace manifests of an installation', { timeout: 30_000 }, () => {
  const installation =
    '--cluster-id prod-eu --image relay@sha256:0 --region eu-west-1 --queue-url-prefix https://queues/1/'.split(
      ' ',
    );

  async function objectsOf(...words: string[]) {
    const { exitCode, stdout } = await runMillrace(['manifests', ...words]);
    expect(exitCode).toBe(0);
    return parseAllDocuments(stdout).map((document) => document.toJS());
  }

  test('come behind the definitions, the namespace first', async () => {
    const objects = await objectsOf(...installation);

    const kinds = objects.map(({ kind }) => kind);
    expect(kinds.slice(0, 4)).toEqual([
      ...Array.from({ length: 3 }, () => 'CustomResourceDefinition'),
      'Namespace',
    ]);
    expect(kinds).toContain('Deployment');
    expect(kinds).not.toContain('Secret');
  });

  test('name namespaces, Secrets and Services, and grant no others', async () => {
    const objects = await objectsOf(
      ...installation,
      '--work-namespace',
      'db',
      '--secret',
      'db/backup-keys',
      '--service',
      'db/topo:2379',
      '--user',
      'drain-step=somebody',
    );

    const bound = objects
      .filter(({ kind }) => kind === 'ClusterRoleBinding')
      .map(({ metadata }) => metadata.name);
    const named = objects.flatMap(({ kind, rules }) =>
      kind === 'Role'
        ? rules.flatMap((rule: { resourceNames?: string[] }) => rule.resourceNames ?? [])
        : [],
    );
    const allSecrets = objects.flatMap(({ kind, rules }) =>
      kind === 'ClusterRole'
        ? rules.flatMap((rule: { resources: string[] }) => rule.resources)
        : [],
    );
    const users = objects.flatMap(({ subjects = [], metadata }) =>
      subjects.some(({ name }: { name: string }) => name === 'somebody') ? [metadata.name] : [],
    );
    expect(bound).toEqual(['millrace-drain-step-cluster']);
    expect(users).toEqual([
      'millrace-drain-step',
      'millrace-drain-step-cluster',
      'millrace-drain-step-named',
    ]);
    expect(new Set(named)).toEqual(new Set(['backup-keys', 'millrace-relay', 'topo:2379']));
    expect(allSecrets).not.toContain('secrets');
    expect(allSecrets).not.toContain('services/proxy');
  });

  test('are refused with everything that is missing or wrong', async () => {
    const { exitCode, stdout, stderr } = await runMillrace([
      'manifests',
      '--image',
      'relay',
      '--secret',
      'without-a-namespace',
      '--user',
      'nobody=somebody',
    ]);

    expect(exitCode).toBe(2);
    expect(stdout).toBe('');
    expect(stderr).toContain('--cluster-id is missing');
    expect(stderr).toContain('--queue-url-prefix is missing');
    expect(stderr).toContain('--region is missing');
    expect(stderr).toContain('--secret must be <namespace>/<name>');
    expect(stderr).toContain('--user must name one of drain-step, ');
  });
});

describe('millrace reset', { timeout: 30_000 }, () => {
  test('refuses an unknown step and names the valid ones', async () => {
    const { exitCode, stderr } = await runMillrace([
      'reset',
      'shd/orders-0',
      'no-such-step',
      '-n',
      'db',
      '--kubeconfig',
      file,
    ]);

    expect(exitCode).toBe(2);
    for (const step of stepNames) {
      expect(stderr).toContain(step);
    }
  });

  test.each(['orders-0', 'pod/orders-0', 'shd/', 'shd/a/b'])(
    'refuses the target %s and names the valid forms',
    async (target) => {
      const { exitCode, stderr } = await runMillrace([
        'reset',
        target,
        'drain-step',
        '-n',
        'db',
        '--kubeconfig',
        file,
      ]);

      expect(exitCode).toBe(2);
      expect(stderr).toContain('shd/<name>');
    },
  );
});
