import { execFile } from 'node:child_process';
import { cp, readFile, rename, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import * as z from 'zod';
import type { JsonObject } from '#shared/kube/json.ts';
import { type StepName, stepNames } from '#shared/api/steps.ts';

const run = promisify(execFile);
const root = new URL('../..', import.meta.url).pathname;

/** How the release that these tests put beside this one calls itself. */
export const nextVersion = '99.0.0';

/** What stands in the records that only the next version writes. */
export const note = 'written by the next version';

/** The state that the next version calls what this one calls `acknowledged`. */
export const nextState = 'agreed';

interface Change {
  readonly file: string;
  /** Stands in the file exactly once. */
  readonly find: string;
  readonly replace: string;
}

/** One change of each kind that a release may bring. */
const changes: readonly Change[] = [
  {
    file: 'shared/api/version.ts',
    find: 'export const version: string =',
    replace: `export const version: string = '${nextVersion}' ||`,
  },
  // A record has a field more, which every look of the next version writes.
  {
    file: 'shared/api/drain-record.ts',
    find: '  forced: z.boolean(),',
    replace: '  forced: z.boolean(),\n  note: z.string().optional(),',
  },
  {
    file: 'functions/drain-step/moves.ts',
    find: '    data: leaver,\n  };',
    replace: `    data: { ...leaver, note: '${note}' },\n  };`,
  },
  {
    file: 'functions/drain-step/moves.ts',
    find: '    ...record,\n    state,\n',
    replace: `    ...record,\n    data: { ...leaver, note: '${note}' },\n    state,\n`,
  },
  // A record has a state more.
  {
    file: 'shared/kernel/record.ts',
    find: '    key,\n    state,\n',
    replace: `    key,\n    state: state === 'acknowledged' ? '${nextState}' : state,\n`,
  },
  {
    file: 'shared/kernel/record.ts',
    find: '    body = JSON.parse(text);\n',
    replace: `    body = JSON.parse(text);\n    if (body.state === '${nextState}') body = { ...body, state: 'acknowledged' };\n`,
  },
  // A definition has a field more in its spec, and one in its status, which drain-step writes.
  {
    file: 'shared/api/shard.ts',
    find: "        since: z.string().meta({ description: 'When it was chosen.', format: 'date-time' }),",
    replace:
      "        since: z.string().meta({ description: 'When it was chosen.', format: 'date-time' }),\n        note: z.string().optional().meta({ description: 'New.' }),",
  },
  {
    file: 'shared/api/shard.ts',
    find: "      .default({ deadline: '5m' })",
    replace:
      "      .extend({ note: z.string().optional().meta({ description: 'New.' }) })\n      .default({ deadline: '5m' })",
  },
  {
    file: 'functions/drain-step/moves.ts',
    find: '          since: leaver.startedAt,',
    replace: `          since: leaver.startedAt,\n          note: '${note}',`,
  },
  // A hint has a field more in each of its parts.
  {
    file: 'events/hint.ts',
    find: "    datacontenttype: 'application/json',\n    data: {",
    replace:
      "    datacontenttype: 'application/json',\n    priority: 'normal',\n    data: {\n      note: 'new',",
  },
];

/** The `millrace` commands of two installations. */
export interface TwoVersions {
  readonly older: string;
  readonly newer: string;
}

/** The definitions that an installation ships, as they are applied. */
export async function definitionsOf(command: string): Promise<readonly JsonObject[]> {
  const { stdout } = await run(process.execPath, [command, 'manifests', '--json'], {
    maxBuffer: 64 * 1024 * 1024,
  });
  return z.object({ items: z.array(z.record(z.string(), z.json())) }).parse(JSON.parse(stdout))
    .items;
}

/**
 * Makes two installations in a folder: this source as it is, and the next version, which is this source with a change of
 * each kind and its definitions generated anew. Each has its own relay and definitions, but a message that either takes
 * goes to a function of this version or of the next one, as the seed has it.
 */
export async function makeTwoVersions(folder: string, seed: number): Promise<TwoVersions> {
  const [older, newer] = [join(folder, 'older'), join(folder, 'newer')];
  await Promise.all([copySource(older), copySource(newer)]);
  for (const { file, find, replace } of changes) {
    const path = join(newer, file);
    const text = await readFile(path, 'utf8');
    if (text.split(find).length !== 2) {
      throw new Error(`${file} does not say exactly once: ${find}`);
    }
    await writeFile(
      path,
      text.replace(find, () => replace),
    );
  }
  await generateDefinitions(newer);
  for (const [place, step] of stepNames.entries()) {
    await mixHandlers({ older, newer }, step, seed + 2 * place);
  }
  const command = 'infra/cli/millrace.mjs';
  return { older: join(older, command), newer: join(newer, command) };
}

async function copySource(folder: string): Promise<void> {
  for (const part of ['functions', 'shared', 'events', 'infra', 'package.json']) {
    await cp(join(root, part), join(folder, part), { recursive: true });
  }
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
}

async function generateDefinitions(folder: string): Promise<void> {
  const script = [
    "import { writeFileSync } from 'node:fs';",
    "import { generateDefinitions } from './infra/kubernetes/crd.ts';",
    'for (const { path, content } of generateDefinitions()) writeFileSync(path, content);',
  ].join('\n');
  await run(process.execPath, ['--input-type=module', '--eval', script], { cwd: folder });
}

/** Puts a handler in the place of each version's own that hands every invocation to one of the two. */
async function mixHandlers(
  { older, newer }: TwoVersions,
  step: StepName,
  seed: number,
): Promise<void> {
  const file = (folder: string, name: string) => join(folder, 'functions', step, name);
  const ownHandler = 'own-handler.ts';
  for (const folder of [older, newer]) {
    await rename(file(folder, 'handler.ts'), file(folder, ownHandler));
  }
  for (const [place, folder] of [older, newer].entries()) {
    const text = [
      `import { handler as older } from '${file(older, ownHandler)}';`,
      `import { handler as newer } from '${file(newer, ownHandler)}';`,
      `import { seeded } from '${join(root, 'test/unit/events/relay/seeded.ts')}';`,
      `const random = seeded(${seed + place});`,
      'export const handler = (event, context) => (random() < 0.5 ? older : newer)(event, context);',
      '',
    ];
    await writeFile(file(folder, 'handler.ts'), text.join('\n'));
  }
}
