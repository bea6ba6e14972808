import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { runMillrace } from './run-millrace.ts';

const kubeconfig = `
apiVersion: v1
kind: Config
current-context: one
clusters: [{name: one, cluster: {server: 'https://127.0.0.1:1'}}]
contexts: [{name: one, context: {cluster: one, user: one}}]
users: [{name: one, user: {token: canary}}]
`;

let folder: string;
let words: readonly string[];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-output-'));
  const file = join(folder, 'kubeconfig');
  await writeFile(file, kubeconfig);
  words = ['config', '--kubeconfig', file];
});

afterAll(() => rm(folder, { recursive: true }));

describe('the form of the output', { timeout: 30_000 }, () => {
  test('is a table when none is asked for', async () => {
    const asked = await runMillrace([...words, '--output', 'table']);
    const usual = await runMillrace(words);

    expect(usual).toEqual(asked);
    expect(usual.stdout).toMatch(/^SETTING +VALUE +FROM\n/);
  });

  test('is the same value as JSON and as YAML', async () => {
    const json = await runMillrace([...words, '-o', 'json']);
    const yaml = await runMillrace([...words, '--output=yaml']);

    expect([json.exitCode, yaml.exitCode]).toEqual([0, 0]);
    expect(json.stdout.trimEnd()).not.toContain('\n');
    expect(parse(yaml.stdout)).toEqual(JSON.parse(json.stdout));
  });

  test.each([[['--json']], [['--json', '-o', 'json']], [['-o', 'json', '--json']]])(
    'is JSON by %j',
    async (options) => {
      const { exitCode, stdout } = await runMillrace([...words, ...options]);

      expect(exitCode).toBe(0);
      expect(JSON.parse(stdout)).toMatchObject({ context: { value: 'one' } });
    },
  );

  test.each([
    [['--json', '-o', 'yaml'], '--json and --output yaml contradict each other'],
    [['-o', 'table', '--json'], '--json and --output table contradict each other'],
    [['-o', 'xml'], 'table, json, yaml'],
  ])('is refused by %j', async (options, complaint) => {
    const { exitCode, stdout, stderr } = await runMillrace([...words, ...options]);

    expect(exitCode).toBe(2);
    expect(stdout).toBe('');
    expect(stderr).toContain(complaint);
  });

  test('of manifests is YAML, or one List as JSON, and never a table', async () => {
    const usual = await runMillrace(['manifests']);
    const yaml = await runMillrace(['manifests', '-o', 'yaml']);
    const json = await runMillrace(['manifests', '-o', 'json']);
    const table = await runMillrace(['manifests', '-o', 'table']);

    expect(yaml).toEqual(usual);
    expect(parseAllDocuments(usual.stdout)).toHaveLength(3);
    expect(JSON.parse(json.stdout)).toMatchObject({ kind: 'List' });
    expect(table.exitCode).toBe(2);
  });
});
