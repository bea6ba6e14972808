import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { type Server, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Browser } from 'playwright-core';
import * as z from 'zod';
import { segmentKey } from '#shared/archive/archive.ts';
import type { DecisionEntry } from '#shared/archive/entry.ts';
import { encodeSegment } from '#shared/archive/segment.ts';
import { type StepName, stepNames } from '#shared/api/steps.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import { startBrowser } from '#test/cluster/chromium.ts';
import { median } from './distribution.ts';
import { type Figure, figure } from './figure.ts';
import { type Cluster, clusterId, startCluster } from './installation.ts';
import { naivePage } from './naive-page.ts';
import { create, createNamespace, forEach, namespace, shardManifest } from './objects.ts';
import { type Part, type PartOptions, scaled } from './part.ts';

const targetCount = 1_000;
const markCount = 10_000;

/** Decisions lie in segments of so many, as a busy worker writes them. */
const segmentEntries = 100;

/** Each is opened so often, by a browser that keeps nothing from the last time. */
const openings = 5;

/** What a person takes for at once, in milliseconds. */
const goalMs = 1_000;

/**
 * How long it takes until the page shows a thousand targets and the ten thousand decisions of one of them: from the moment the
 * browser begins to load it to the frame in which both are on the screen. All of it is real: API server, archive, `millrace ui`,
 * browser. Beside it a page that makes an element for each mark and a row for each target, of the same data.
 */
export const page: Part = {
  name: 'page',
  title:
    'the page with 1,000 targets and 10,000 decisions, beside one that makes an element for each',
  async measure(options) {
    await using stack = new AsyncDisposableStack();
    const cluster = stack.use(await startCluster(options, { isAudited: false }));
    const first = await makeTargets(cluster, options);
    const archive = join(cluster.folder, 'archive');
    const marks = await writeArchive(archive, first, options);
    const address = await startPage(cluster, archive, stack);
    const browser = await startBrowser();
    stack.defer(() => browser.close());
    const hash = `#/shd/${namespace}/${first.name}`;
    options.log(`opening both pages ${openings} times each`);
    const cold = await openPage(browser, address, hash);
    const data = await readData(address, `shd/${namespace}/${first.name}`);
    const naive = await serve(naivePage(data), stack);
    const ours: Painted[] = [];
    const peers: Painted[] = [];
    for (let turn = 0; turn < openings; turn += 1) {
      ours.push(await openPage(browser, address, hash));
      peers.push(await openPage(browser, naive, ''));
    }
    return [
      ...paintFigures('targets and decisions painted', ours, peers, 'paintedMs', goalMs),
      figure('page: targets and decisions painted, archive not yet read', cold.paintedMs, 'ms', {
        goal: goalMs,
      }),
      ...paintFigures('first contentful paint', ours, peers, 'firstMs'),
      figure('page: elements', median(ours.map(({ elements }) => elements)), 'elements', {
        peer: median(peers.map(({ elements }) => elements)),
      }),
      figure('page: decisions in the picture', marks, 'decisions'),
    ];
  },
};

interface Painted {
  readonly firstMs: number;
  readonly paintedMs: number;
  readonly elements: number;
}

function paintFigures(
  what: string,
  ours: readonly Painted[],
  peers: readonly Painted[],
  field: 'firstMs' | 'paintedMs',
  goal?: number,
): Figure[] {
  const of = (all: readonly Painted[]) => all.map((each) => each[field]);
  const more = goal === undefined ? {} : { goal };
  return [
    figure(`page: ${what}, median`, median(of(ours)), 'ms', { ...more, peer: median(of(peers)) }),
    figure(`page: ${what}, slowest`, Math.max(...of(ours)), 'ms', { peer: Math.max(...of(peers)) }),
  ];
}

interface Target {
  readonly name: string;
  readonly uid: string;
}

async function makeTargets({ connection }: Cluster, options: PartOptions): Promise<Target> {
  const count = scaled(targetCount, options);
  options.log(`making ${count} shards`);
  await createNamespace(connection).catch(() => undefined);
  const places = Array.from({ length: count }, (_, place) => place);
  const [first] = await forEach(places, async (place) => {
    const { metadata } = await create(
      connection,
      'Shard',
      shardManifest(`shown-${String(place).padStart(4, '0')}`, 'main'),
    );
    return { name: metadata.name, uid: metadata.uid };
  });
  if (first === undefined) {
    throw new Error('there is no shard');
  }
  return first;
}

const outcomes = ['waiting', 'settled', 'acting', 'blocked'] as const;

/** Decisions of half a day about one target. */
async function writeArchive(
  folder: string,
  { name, uid }: Target,
  options: PartOptions,
): Promise<number> {
  const count = scaled(markCount, options);
  options.log(`writing ${count} decisions`);
  const from = Date.now() - 12 * 3_600_000;
  const steps = stepNames.slice(0, 4).filter((step) => step !== 'backup-config');
  const entries = Array.from({ length: count }, (_, place): DecisionEntry => {
    const step: StepName = steps[place % steps.length] ?? 'drain-step';
    const outcome = outcomes[Math.floor(place / 7) % outcomes.length] ?? 'settled';
    return {
      v: 1,
      kind: 'decision',
      at: new Date(from + (place / count) * 12 * 3_600_000).toISOString(),
      version: '0.1.0',
      cluster: clusterId,
      step,
      target: { kind: 'Shard', namespace, name, uid },
      hint: {
        id: `${uid}/${place}/${step}`,
        type: 'dev.millrace.hint.wake',
        time: '2026-01-01T00:00:00Z',
      },
      decision: {
        outcome,
        reason: 'Settling',
        message: `member ${name}-main-zone-a-${place % 3} can go: the gates hold since ${place % 5} s`,
        effects: outcome === 'acting' ? [{ kind: 'advance' }, { kind: 'applyStatus' }] : [],
      },
      result: { kind: 'done', effects: outcome === 'acting' ? ['advance', 'applyStatus'] : [] },
    };
  });
  for (const step of steps) {
    const own = entries.filter((entry) => entry.step === step);
    for (let start = 0; start < own.length; start += segmentEntries) {
      const part = own.slice(start, start + segmentEntries);
      const at = Date.parse(part[0]?.at ?? '') as Instant;
      const path = join(
        folder,
        segmentKey({ kind: 'decision', cluster: clusterId, step }, at, `bench-${start}`),
      );
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, await encodeSegment(part));
    }
  }
  return count;
}

async function startPage(
  { kubeconfigPath, folder }: Cluster,
  archive: string,
  stack: AsyncDisposableStack,
): Promise<string> {
  const binary = fileURLToPath(new URL('../../infra/cli/millrace.mjs', import.meta.url));
  const archiveUrl = pathToFileURL(archive).href;
  const where = ['-n', namespace, '--cluster-id', clusterId, '--kubeconfig', kubeconfigPath];
  const words = ['ui', '--json', ...where, '--archive', archiveUrl];
  const child = spawn(process.execPath, [binary, ...words], {
    env: { HOME: folder },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  stack.defer(() => end(child));
  for await (const line of createInterface({ input: child.stdout })) {
    return z.object({ ready: z.literal(true), url: z.url() }).parse(JSON.parse(line)).url;
  }
  throw new Error('millrace ui ended before it was ready');
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    child.kill('SIGTERM');
    await once(child, 'exit');
  }
}

/** What the page is told, for the other page. */
async function readData(address: string, id: string): Promise<{ rows: string; timeline: string }> {
  const signedIn = await fetch(address, { redirect: 'manual' });
  const cookie = signedIn.headers.getSetCookie()[0]?.split(';')[0] ?? '';
  const get = (path: string) => fetch(new URL(path, address), { headers: { cookie } });
  const query = new URLSearchParams({ id, from: String(Date.now() - 24 * 3_600_000) });
  const timeline = await (await get(`/api/timeline?${query.toString()}`)).text();
  const feed = await get('/feed');
  const decoder = new TextDecoder();
  let text = '';
  for await (const part of feed.body ?? []) {
    text += decoder.decode(part, { stream: true });
    const rows = /^event: targets\ndata: (.*)\n\n/m.exec(text)?.[1];
    if (rows !== undefined) {
      return { rows, timeline };
    }
  }
  throw new Error('the feed ended before it told the targets');
}

async function serve(
  files: ReadonlyMap<string, { readonly type: string; readonly text: string }>,
  stack: AsyncDisposableStack,
): Promise<string> {
  const server: Server = createServer(({ url = '/' }, response) => {
    const file = files.get(url);
    response.writeHead(file === undefined ? 404 : 200, {
      'content-type': file?.type ?? 'text/plain',
    });
    response.end(file?.text);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  stack.defer(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

const painted = z.object({ firstMs: z.number(), paintedMs: z.number(), elements: z.number() });

/** In a browser that has nothing kept; signing in comes before, and is not measured. */
async function openPage(browser: Browser, address: string, hash: string): Promise<Painted> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 1000 } });
  try {
    const page = await context.newPage();
    if (hash !== '') {
      await context.request.get(address);
    }
    await page.goto(new URL(`/${hash}`, address).href);
    await page.waitForFunction(() =>
      ['targets painted', 'timeline painted'].every(
        (name) => performance.getEntriesByName(name).length > 0,
      ),
    );
    return painted.parse(
      await page.evaluate(`({
        firstMs: performance.getEntriesByName('first-contentful-paint')[0].startTime,
        paintedMs: Math.max(
          performance.getEntriesByName('timeline painted')[0].startTime,
          performance.getEntriesByName('targets painted')[0].startTime,
        ),
        elements: document.querySelectorAll('*').length,
      })`),
    );
  } finally {
    await context.close();
  }
}
