import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** The generated file beside the `.proto` it is made from, by its path in the repository. */
const generatedPath = 'shared/topology/proto/clustermetadata_pb.ts';

/**
 * Generates the TypeScript of the topology's records from `clustermetadata.proto` and returns it without writing it.
 *
 * Runs the compiler and its plugin from `node_modules`; nothing is fetched. Paths are relative to the repository's root.
 * Throws with the compiler's own message when the `.proto` file is wrong.
 */
export async function generateProto(): Promise<{ path: string; content: string }[]> {
  const root = fileURLToPath(new URL('../../../', import.meta.url));
  const compiler = fileURLToPath(import.meta.resolve('@bufbuild/buf/bin/buf'));
  const generator = fileURLToPath(import.meta.resolve('@bufbuild/protoc-gen-es/bin/protoc-gen-es'));
  const output = await mkdtemp(join(tmpdir(), 'millrace-proto-'));
  try {
    const template = {
      version: 'v2',
      plugins: [
        {
          // Run by the Node that runs this, whatever `node` the PATH leads to.
          local: [process.execPath, generator],
          out: output,
          // The result is run by stripping its types, so enums must be plain objects and imports name their file.
          opt: ['target=ts', 'import_extension=ts', 'erasable_syntax=true'],
        },
      ],
    };
    await run(
      process.execPath,
      [compiler, 'generate', 'shared/topology/proto', '--template', JSON.stringify(template)],
      { cwd: root },
    );
    const content = await readFile(join(output, 'clustermetadata_pb.ts'), 'utf8');
    return [{ path: generatedPath, content }];
  } finally {
    await rm(output, { recursive: true, force: true });
  }
}
