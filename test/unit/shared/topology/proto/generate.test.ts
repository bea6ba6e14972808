import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { generateProto } from '#shared/topology/proto/generate.ts';

test('the generated records are those of the proto file', async () => {
  const root = new URL('../../../../../', import.meta.url);

  const files = await generateProto();

  expect(files.map(({ path }) => path)).toEqual(['shared/topology/proto/clustermetadata_pb.ts']);
  for (const { path, content } of files) {
    expect(content).toBe(await readFile(new URL(path, root), 'utf8'));
  }
}, 60_000);
