import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { generateStack } from '#infra/aws/stack.ts';
import { generateBase } from '#infra/kubernetes/base.ts';
import { generateDefinitions } from '#infra/kubernetes/crd.ts';
import { generateReference } from '#infra/kubernetes/reference.ts';
import { generateObservability } from '#infra/observability/generate.ts';
import { generateProto } from '#shared/topology/proto/generate.ts';
import { generateVersion } from './version-file.ts';

/**
 * Writes every file that has its source elsewhere in the project. With `--check` it writes none, names each that is not
 * what its source says, and exits 1 if there is one.
 */

/** A generated file: its path from the project's root, and its whole content. */
interface GeneratedFile {
  readonly path: string;
  readonly content: string;
}

const generators: readonly (() => readonly GeneratedFile[] | Promise<readonly GeneratedFile[]>)[] =
  [
    generateVersion,
    generateDefinitions,
    generateReference,
    generateBase,
    generateStack,
    generateObservability,
    generateProto,
  ];

const root = new URL('..', import.meta.url);

const { isCheck, unknown } = readArguments(process.argv.slice(2));
if (unknown === undefined) {
  await generate();
} else {
  console.error(`unknown argument ${unknown}: the only one there is is --check`);
  process.exitCode = 2;
}

function readArguments(given: readonly string[]) {
  return {
    isCheck: given.includes('--check'),
    unknown: given.find((argument) => argument !== '--check'),
  };
}

async function generate(): Promise<void> {
  const files: GeneratedFile[] = [];
  for (const generator of generators) {
    files.push(...(await generator()));
  }
  const drifted: GeneratedFile[] = [];
  for (const file of files) {
    if ((await present(file.path)) !== file.content) {
      drifted.push(file);
    }
  }
  for (const { path, content } of drifted) {
    if (isCheck) {
      console.error(`${path} is not what its source says: run npm run generate`);
      process.exitCode = 1;
    } else {
      const target = new URL(path, root);
      await mkdir(new URL('.', target), { recursive: true });
      await writeFile(target, content);
      console.log(`wrote ${path}`);
    }
  }
  console.log(
    `${files.length - drifted.length} of ${files.length} generated files were up to date`,
  );
}

/** What the file holds now, `undefined` where there is none. */
async function present(path: string): Promise<string | undefined> {
  try {
    return await readFile(new URL(path, root), 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') {
      return undefined;
    }
    throw error;
  }
}
