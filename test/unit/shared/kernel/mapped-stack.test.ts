import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bundleSettings } from '#infra/bundle-settings.ts';
import { createLogger } from '#shared/kernel/logger.ts';
import { mappedStack } from '#shared/kernel/mapped-stack.ts';

const source = `interface Order { readonly id: string }

export function refuse(order: Order): never {
  throw new Error('order ' + order.id + ' is refused');
}
`;

describe('the stack of an error in a bundle', () => {
  let folder: string;
  let error: Error;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'millrace-stack-'));
    await writeFile(join(folder, 'orders.ts'), source);
    const outfile = join(folder, 'dist/orders/index.mjs');
    const entryPoints = [join(folder, 'orders.ts')];
    await build({ ...bundleSettings, entryPoints, outfile, sourcemap: true });
    error = new Error('order 7 is refused');
    error.stack = await stackOf(pathToFileURL(outfile).href);
  });

  afterAll(() => rm(folder, { recursive: true }));

  test('names the place in the source', () => {
    expect(error.stack).toMatch(/orders\/index\.mjs:\d+:\d+/);
    expect(mappedStack(error.stack ?? '')).toMatch(/ orders\.ts:4:\d+|\(orders\.ts:4:\d+\)/);
  });

  test('is told so by the logger, its causes too', () => {
    const lines: string[] = [];
    const logger = createLogger('info', {}, { write: (line) => void lines.push(line) });

    logger.error({ err: new Error('not delivered', { cause: error }) }, 'look failed');

    expect(lines.join('')).toMatch(/not delivered.*order 7 is refused.*orders\.ts:4:\d+/);
    expect(lines.join('')).not.toContain('orders/index.mjs');
  });

  test('stays as it is where there is no map, or none that can be read', async () => {
    const url = pathToFileURL(join(folder, 'dist/orders/other.mjs')).href;
    const stack = `Error: no\n    at ${url}:1:2\n    at node:internal/process:3:4`;

    expect(mappedStack(stack)).toBe(stack);
    await writeFile(join(folder, 'dist/orders/other.mjs.map'), '{"version": 3, "mappings"');
    expect(mappedStack(stack)).toBe(stack);
  });
});

/** In a process of its own: here the test runner has switched Node's source maps on. */
async function stackOf(url: string): Promise<string> {
  const script = `
    const { refuse } = await import(${JSON.stringify(url)});
    try {
      refuse({ id: '7' });
    } catch (error) {
      process.stdout.write(error.stack);
    }`;
  const words = ['--input-type', 'module', '--eval', script];
  const { stdout } = await promisify(execFile)(process.execPath, words);
  return stdout;
}
