import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

test('a relay with a wrong configuration exits 2 and names every problem at once', async () => {
  const entry = fileURLToPath(new URL('../../../../events/relay/main.ts', import.meta.url));
  const { promise, resolve } = Promise.withResolvers<{ code: unknown; text: string }>();

  execFile(process.execPath, [entry], { env: { MILLRACE_RELAY_PORT: 'x' } }, (error, _, text) =>
    resolve({ code: error?.code, text }),
  );

  const { code, text } = await promise;
  expect(code).toBe(2);
  for (const name of [
    'MILLRACE_CLUSTER_ID',
    'MILLRACE_STAGE',
    'MILLRACE_RELAY_PORT',
    'KUBECONFIG',
  ]) {
    expect(text).toContain(name);
  }
});
