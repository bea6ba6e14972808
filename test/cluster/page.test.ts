import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { SQSClient, SendMessageCommand } from '@aws-sdk/client-sqs';
import axe, { type AxeResults } from 'axe-core';
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { deadLetterQueueName, makeHint } from '#events/hint.ts';
import { queueUrl } from '#infra/local/queue/queue.ts';
import { wallClock } from '#shared/kernel/instant.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import type { JsonObject } from '#shared/kube/json.ts';
import { attachedShardManifest } from '#test/builders/manifest.ts';
import { LineLog } from '../unit/infra/local/worker/line-log.ts';
import { missingBrowser, useBrowser } from './browser.ts';
import { missingControlPlane, useControlPlane } from './local-control-plane.ts';

/**
 * `millrace ui` as people run it: beside a `millrace dev` on a real API server, in a real browser. The Shards' Database does
 * not exist, so each step looks at them and says so.
 */
describe.skipIf(missingBrowser !== undefined || missingControlPlane !== undefined)(
  'the page',
  () => {
    const controlPlane = useControlPlane();
    const browser = useBrowser();
    const started: ChildProcess[] = [];
    const pages: Page[] = [];
    let folder: string;
    let decisions: LineLog;
    let queue: string;
    let cluster: string;
    let looking: string;
    let writing: string;

    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'millrace-page-'));
      decisions = await run('dev', '--json', '--install', '--record');
      const [ready] = await decisions.until({ ready: true });
      ({ queue } = z.object({ queue: z.url() }).parse(ready));
      cluster = await readClusterId();
      await create('stuck');
      await create('calm');
      await decisions.until({ step: 'drain-step', target: 'shd/default/stuck' });
      looking = await addressOf('ui', '--json', '-n', 'default');
      writing = await addressOf('ui', '--json', '-n', 'default', '--write');
    });

    afterEach(async () => {
      for (const page of pages.splice(0)) {
        await page.context().close();
      }
    });

    afterAll(async () => {
      for (const child of started) {
        child.kill('SIGKILL');
      }
      await rm(folder, { recursive: true, force: true });
    });

    /** Runs a command of `millrace` until the end of the tests, and reads the JSON lines that it writes. */
    async function run(...words: readonly string[]): Promise<LineLog> {
      const binary = fileURLToPath(new URL('../../infra/cli/millrace.mjs', import.meta.url));
      const child = spawn(
        process.execPath,
        [binary, ...words, '--kubeconfig', controlPlane().kubeconfigPath],
        { env: { HOME: folder, XDG_STATE_HOME: folder }, stdio: ['ignore', 'pipe', 'inherit'] },
      );
      started.push(child);
      const lines = new LineLog();
      createInterface({ input: child.stdout }).on('line', lines.add);
      return lines;
    }

    async function addressOf(...words: readonly string[]): Promise<string> {
      const [ready] = await (await run(...words)).until({ ready: true });
      return z.object({ url: z.url() }).parse(ready).url;
    }

    async function request(
      method: 'GET' | 'POST' | 'PATCH',
      path: string,
      body?: JsonObject,
    ): Promise<JsonObject> {
      const connection = connectKube(controlPlane().access());
      try {
        const answer = await connection.request({
          method,
          path,
          ...(body === undefined ? {} : { body }),
          ...(method === 'PATCH' ? { contentType: 'application/merge-patch+json' } : {}),
        });
        expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
        return answer.body as JsonObject;
      } finally {
        connection.close();
      }
    }

    const shards = '/apis/millrace.dev/v1alpha1/namespaces/default/shards';

    async function create(name: string): Promise<void> {
      await request('POST', shards, attachedShardManifest(name));
    }

    async function patch(name: string, change: JsonObject): Promise<void> {
      await request('PATCH', `${shards}/${name}`, change);
    }

    async function readClusterId(): Promise<string> {
      return uidOf(await request('GET', '/api/v1/namespaces/kube-system'));
    }

    /** A page in a browser of its own that is signed in by the printed address. */
    async function open(address: string, hash = '', options = {}): Promise<Page> {
      const context = await browser().newContext(options);
      const page = await context.newPage();
      pages.push(page);
      await page.goto(address);
      if (hash !== '') {
        await page.goto(new URL(`/${hash}`, address).href);
      }
      return page;
    }

    async function putDeadLetter(name: string): Promise<void> {
      const hint = makeHint({
        step: 'drain-step',
        cause: 'changed',
        source: cluster,
        token: 'by-hand',
        at: wallClock(),
        target: {
          kind: 'Shard',
          plural: 'shards',
          namespace: 'default',
          name,
          uid: uidOf(await request('GET', `${shards}/${name}`)),
        },
      });
      const client = new SQSClient({
        endpoint: queue,
        region: 'us-east-1',
        useQueueUrlAsEndpoint: false,
        credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
      });
      await client.send(
        new SendMessageCommand({
          QueueUrl: queueUrl(queue, deadLetterQueueName('local', 'drain-step')),
          MessageBody: JSON.stringify(hint),
        }),
      );
      client.destroy();
    }

    /** What a check of accessibility has against the page as it is. */
    async function problemsOf(page: Page): Promise<readonly string[]> {
      await page.evaluate(axe.source);
      const { violations } = await page.evaluate<AxeResults>('axe.run()');
      return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
    }

    test('lists every target, and leaves the token out of the address', async () => {
      const page = await open(looking);

      await page.getByRole('link', { name: 'shd/default/stuck' }).waitFor();

      expect(await page.getByRole('table', { name: 'Targets' }).getByRole('row').count()).toBe(3);
      expect(new URL(page.url()).search).toBe('');
      await page.getByText('needs you').first().waitFor();
    });

    test('a browser without the token, or with another, is told so and gets nothing', async () => {
      const { origin } = new URL(looking);
      const context = await browser().newContext();
      const page = await context.newPage();
      pages.push(page);

      const bare = await page.goto(`${origin}/`);
      const wrong = await page.goto(`${origin}/?token=${'x'.repeat(43)}`);

      expect([bare?.status(), wrong?.status()]).toEqual([401, 401]);
      expect(await context.cookies()).toEqual([]);
    });

    test('asks nobody but its own server for anything', async () => {
      const page = await open(looking);
      const asked: string[] = [];
      page.on('request', (request) => asked.push(new URL(request.url()).origin));

      await page.goto(new URL('/#/shd/default/stuck', looking).href);
      await page.reload();
      await page.getByRole('application').waitFor();

      expect(new Set(asked)).toEqual(new Set([new URL(looking).origin]));
    });

    test('by keyboard alone a target is found, opened, and its decisions gone through', async () => {
      const page = await open(looking);
      await page.getByRole('link', { name: 'shd/default/stuck' }).waitFor();

      await page.keyboard.press('/');
      await page.keyboard.type('stuck');
      await page.getByText('1 of 2 targets').waitFor();
      while ((await page.locator('tbody a:focus').count()) === 0) {
        await page.keyboard.press('Tab');
      }
      await page.keyboard.press('Enter');
      const heading = page.getByRole('heading', { name: 'shd/default/stuck' });
      await heading.waitFor();
      expect(await page.locator('h2:focus').count()).toBe(1);
      const picture = page.getByRole('application');
      await picture.waitFor();
      while ((await page.locator('[role=application]:focus').count()) === 0) {
        await page.keyboard.press('Tab');
      }
      const strip = page.locator('.strip');
      await page.keyboard.press('End');
      await strip.locator('time').waitFor();
      const last = await strip.textContent();
      await page.keyboard.press('Home');
      await expect.poll(() => strip.textContent()).not.toBe(last);
      await page.keyboard.press('Enter');
      await page.locator('.decisions tbody button:focus').waitFor();
    });

    test('a target that changes is shown as it is now, without a reload', async () => {
      const page = await open(looking);
      const row = page.getByRole('row', { name: /shd\/default\/calm/ });
      await row.waitFor();

      await row.getByRole('link').focus();
      await patch('calm', { spec: { paused: true } });

      await row.getByText('paused').first().waitFor();
      await patch('calm', { spec: { paused: false } });
      await row.getByText('needs you').waitFor();
      await page.getByText('shd/default/calm needs you').waitFor({ state: 'attached' });
      expect(await page.locator('tbody a:focus').getAttribute('href')).toBe('#/shd/default/calm');
    });

    test.each(['light', 'dark'] as const)(
      'has nothing against accessibility when %s',
      async (colorScheme) => {
        await putDeadLetter('calm');
        const page = await open(looking, '', { colorScheme, reducedMotion: 'reduce' });
        await page.getByRole('link', { name: 'shd/default/stuck' }).waitFor();
        const list = await problemsOf(page);
        await page.getByRole('link', { name: 'shd/default/stuck' }).click();
        await page.getByRole('application').waitFor();
        const target = await problemsOf(page);
        await page.getByRole('link', { name: 'Dead letters' }).click();
        await page.getByRole('heading', { name: 'drain-step' }).waitFor();
        const letters = await problemsOf(page);
        const paper = await page.evaluate<string>(
          'getComputedStyle(document.body).backgroundColor',
        );

        expect({ list, target, letters }).toEqual({ list: [], target: [], letters: [] });
        expect(paper).toBe({ light: 'rgb(252, 251, 248)', dark: 'rgb(21, 23, 26)' }[colorScheme]);
      },
    );

    test('a page that may only look has no button to replay, and its server refuses to', async () => {
      await putDeadLetter('calm');
      const page = await open(looking, '#/letters');
      await page.getByRole('button', { name: /What would it decide now/ }).click();
      await page.getByText('Nothing was written').waitFor();

      const buttons = await page.getByRole('button', { name: /Replay/ }).count();
      const status = await page.evaluate(async () => {
        const order = { step: 'drain-step', targets: ['shd/default/calm'] };
        const options = {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(order),
        };
        return (await fetch('/api/replay', options)).status;
      });

      expect(buttons).toBe(0);
      expect(status).toBe(403);
      await page.locator('#letters').getByText('NobodyLeaves').waitFor();
    });

    test('a letter that is replayed after a question is looked at by its step, and gone', async () => {
      await putDeadLetter('stuck');
      const page = await open(writing, '#/letters');
      const before = decisions.where({ step: 'drain-step', target: 'shd/default/stuck' }).length;

      await page.getByRole('checkbox', { name: 'Choose shd/default/stuck' }).check();
      await page.getByRole('button', { name: /^Replay/ }).click();
      await page.getByRole('button', { name: 'Leave it' }).click();
      await page.getByText('Nothing was replayed.').waitFor();
      await page.getByRole('button', { name: /^Replay/ }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Replay' }).click();
      await page.getByText(/hints? sent again, and the letters? deleted/).waitFor();

      await decisions.until({ step: 'drain-step', target: 'shd/default/stuck' }, before + 1);
      await page.getByRole('button', { name: 'Read again' }).click();
      await page
        .getByRole('checkbox', { name: 'Choose shd/default/stuck' })
        .waitFor({ state: 'detached' });
    });

    test('Ctrl-C ends it well, also while a browser listens, which says so', async () => {
      const page = await open(await addressOf('ui', '--json', '-n', 'default'));
      await page.getByRole('link', { name: 'shd/default/stuck' }).waitFor();
      const child = started.at(-1);

      child?.kill('SIGINT');
      const [code] = child === undefined ? [] : await once(child, 'exit');

      expect(code).toBe(0);
      await page.getByText('cut off').waitFor();
    });
  },
);

function uidOf({ metadata }: JsonObject): string {
  return z.object({ uid: z.string() }).parse(metadata).uid;
}
