import { readFileSync, readdirSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { describe, expect, test } from 'vitest';
import { stepNames, sweepName } from '#shared/api/steps.ts';

/**
 * Reads the code base itself: who may import whom, where SDKs and the environment may be touched, and that every step
 * has its files. Rules are functions over (file, text), so that a seeded violation shows that each can fail.
 */
const root = new URL('../..', import.meta.url).pathname;
const folders = ['functions', 'shared', 'events', 'infra', 'test'];

interface Source {
  readonly path: string;
  readonly text: string;
}

interface Rule {
  readonly name: string;
  readonly isBroken: (source: Source) => boolean;
  /** A file that breaks it. */
  readonly violation: Source;
}

function importsOf({ text }: Source): readonly string[] {
  return [...text.matchAll(/(?:from|import)\s*\(?\s*'([^']+)'/g)].map(
    ([, specifier]) => specifier ?? '',
  );
}

/** Imports that exist at run time: `import type` is erased. */
function runtimeImportsOf({ text }: Source): readonly string[] {
  const withoutTypes = text.replaceAll(/(?:import|export) type [^;]*?from '[^']+';/g, '');
  return importsOf({ path: '', text: withoutTypes });
}

const sdkHomes: readonly (readonly [RegExp, RegExp])[] = [
  [/^etcd3$/, /^shared\/topology\//],
  [/^@aws-sdk\/(client-sqs|credential-provider-node)$/, /^shared\/queue\//],
  [/^aws4$/, /^shared\/(queue\/|outside\/eks-token\.ts$)/],
  [/^@aws-sdk\/credential-provider-env$/, /^shared\/outside\/eks-token\.ts$/],
  [/^@aws-sdk\/client-ssm$/, /^shared\/outside\//],
  [/^@aws-sdk\/client-s3$/, /^shared\/(repository|archive)\//],
  [/^@kubernetes\/client-node$/, /^shared\/kube\//],
  [/^@bufbuild\/protobuf/, /^shared\/topology\//],
  [/^croner$/, /^shared\/api\/cron\.ts$/],
  [/^@opentelemetry\//, /^shared\/tracing\//],
];

const rules: readonly Rule[] = [
  {
    name: 'a step imports its own folder, shared and packages, never another step',
    isBroken: (source) =>
      /^functions\/(?!sweep\/)/.test(source.path) &&
      importsOf(source).some(
        (specifier) =>
          /^#(functions|events|infra|test)\//.test(specifier) || specifier.startsWith('../'),
      ),
    violation: {
      path: 'functions/a/decide.ts',
      text: "import { b } from '#functions/b/decide.ts';",
    },
  },
  {
    name: 'the sweep knows no step: besides shared only hints, routes, and what senders are told',
    isBroken: (source) =>
      source.path.startsWith('functions/sweep/') &&
      importsOf(source).some(
        (specifier) =>
          /^#(functions|infra|test|events\/(?!(?:hint|routes|sending)\.ts$))/.test(specifier) ||
          specifier.startsWith('../'),
      ),
    violation: {
      path: 'functions/sweep/sweep.ts',
      text: "import { Wakes } from '#events/relay/wakes.ts';",
    },
  },
  {
    name: 'a step sends nothing (P5)',
    isBroken: (source) =>
      /^functions\/(?!sweep\/)/.test(source.path) &&
      importsOf(source).some((specifier) => specifier.startsWith('#shared/queue/')),
    violation: {
      path: 'functions/a/observe.ts',
      text: "import type { QueueSender } from '#shared/queue/queue.ts';",
    },
  },
  {
    name: 'the sweep writes nothing to the API server',
    isBroken: (source) =>
      source.path.startsWith('functions/sweep/') &&
      /\b(kubeClient|KubeWriter|execute)\b/.test(source.text),
    violation: {
      path: 'functions/sweep/config.ts',
      text: "import { kubeClient } from '#shared/kube/http-kube.ts';",
    },
  },
  {
    name: 'a decision and its rows touch no I/O, clock, randomness, environment or package',
    isBroken: (source) =>
      /^functions\/(sweep\/overdue|(?!sweep\/)[^/]+\/(?!handler|observe|step|record|archived)[a-z-]+)\.ts$/.test(
        source.path,
      ) &&
      (runtimeImportsOf(source).some(
        (specifier) =>
          !/^(\.\/|node:crypto$|#shared\/(api|kernel|topology|goverse\/shard-value|kube\/(resources|ownership))\b)/.test(
            specifier,
          ),
      ) ||
        /\bDate\.now\b|\bnew Date\(\)|Math\.random|process\.|\bfetch\(|logger/.test(source.text)),
    violation: { path: 'functions/a/decide.ts', text: 'const now = Date.now();' },
  },
  {
    name: 'shared imports nothing above it but the hint',
    isBroken: (source) =>
      source.path.startsWith('shared/') &&
      importsOf(source).some((specifier) =>
        /^#(functions|infra|test|events\/(?!hint\.ts$))/.test(specifier),
      ),
    violation: { path: 'shared/kernel/a.ts', text: "import { x } from '#infra/cli/x.ts';" },
  },
  {
    name: 'the kernel knows no adapter',
    isBroken: (source) =>
      source.path.startsWith('shared/kernel/') &&
      runtimeImportsOf(source).some((specifier) =>
        /^#shared\/(outside|queue|topology|admin|repository|tracing|kube\/http)/.test(specifier),
      ),
    violation: {
      path: 'shared/kernel/a.ts',
      text: "import { x } from '#shared/queue/sqs-sender.ts';",
    },
  },
  {
    name: 'the relay knows no step and no adapter of the data plane',
    isBroken: (source) =>
      source.path.startsWith('events/') &&
      importsOf(source).some((specifier) =>
        /^#(functions|infra|test)\/|^#shared\/(topology|admin|repository|outside)\//.test(
          specifier,
        ),
      ),
    violation: {
      path: 'events/relay/a.ts',
      text: "import { x } from '#functions/drain-step/step.ts';",
    },
  },
  {
    name: 'a preview reaches no executor',
    isBroken: (source) =>
      source.path === 'infra/cli/replay/preview.ts' &&
      (importsOf(source).some((specifier) =>
        /^#shared\/(outside\/|kernel\/execute\.ts$|kube\/http)|^#functions\/.*(?<!\/step\.ts)$/.test(
          specifier,
        ),
      ) ||
        /\bwriters\b/.test(source.text)),
    violation: {
      path: 'infra/cli/replay/preview.ts',
      text: "import { execute } from '#shared/kernel/execute.ts';",
    },
  },
  {
    name: 'SDKs are imported by their adapters only',
    isBroken: (source) =>
      /^(functions|shared|events)\//.test(source.path) &&
      sdkHomes.some(
        ([sdk, home]) =>
          !home.test(source.path) &&
          runtimeImportsOf(source).some((specifier) => sdk.test(specifier)),
      ),
    violation: { path: 'shared/kernel/a.ts', text: "import { Etcd3 } from 'etcd3';" },
  },
  {
    name: 'the environment is read where configuration is',
    isBroken: (source) =>
      /^(functions|shared|events)\//.test(source.path) &&
      !/^shared\/kernel\/(config|pipeline)\.ts$|\/main\.ts$/.test(source.path) &&
      /\bprocess\.env\b/.test(source.text),
    violation: { path: 'events/relay/a.ts', text: 'const a = process.env.B;' },
  },
  {
    name: 'annotation keys are spelled in shared/api only',
    isBroken: (source) =>
      /^(functions|shared|events)\//.test(source.path) &&
      !source.path.startsWith('shared/api/') &&
      source.path.endsWith('.ts') &&
      /['"`](?:step|drain|release)?\.?millrace\.dev\/[a-z]/.test(
        source.text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, ''),
      ),
    violation: { path: 'functions/a/observe.ts', text: "const key = 'millrace.dev/drain';" },
  },
  {
    name: 'no file is named utils, helpers, common, types or index',
    isBroken: (source) => /\/(utils?|helpers?|common|types|index)\.ts$/.test(source.path),
    violation: { path: 'shared/kernel/utils.ts', text: '' },
  },
  {
    name: 'what goes wrong is told in a sentence that begins small and has no full stop at its end',
    isBroken: ({ path, text }) =>
      !path.startsWith('test/') &&
      /(?:new (?:Type|Range|Usage|InvalidArgument)?Error|\bremark)\(\s*(?:['"`][A-Z][a-z]|(['"`])[^\n]*\.\1,?\s*\))/.test(
        text,
      ),
    violation: { path: 'shared/a.ts', text: "throw new Error('Cannot do this.');" },
  },
];

const sources: readonly Source[] = folders
  .flatMap((folder) => filesBelow(join(root, folder)))
  .filter((path) => path.endsWith('.ts'))
  .map((path) => ({ path: relative(root, path), text: readFileSync(path, 'utf8') }));

function filesBelow(folder: string): string[] {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? filesBelow(path) : [path];
  });
}

describe('the architecture', () => {
  test('is checked over every folder of the product', () => {
    for (const folder of folders) {
      expect(
        sources.filter(({ path }) => path.startsWith(`${folder}/`)).length,
        folder,
      ).toBeGreaterThan(0);
    }
    expect(sources.length).toBeGreaterThan(80);
  });

  test.each(rules)('$name', (rule) => {
    const checked = sources.filter(({ path }) => path !== 'test/unit/architecture.test.ts');

    expect(checked.filter(rule.isBroken).map(({ path }) => path)).toEqual([]);
    expect(rule.isBroken(rule.violation), 'the rule notices its seeded violation').toBe(true);
  });

  test.each(stepNames)('%s has its files, a short handler and mirrored tests', (step) => {
    const folder = join(root, 'functions', step);

    const handler = readFileSync(join(folder, 'handler.ts'), 'utf8');

    expect(readdirSync(folder)).toEqual(
      expect.arrayContaining(['handler.ts', 'observe.ts', 'decide.ts', 'README.md']),
    );
    expect(handler.split('\n').length).toBeLessThanOrEqual(30);
    expect(handler).not.toMatch(/\bif \(/);
    expect(readdirSync(join(root, 'test/unit/functions', step))).toContain('decide.test.ts');
  });

  test('the sweep has its files, a short handler and mirrored tests', () => {
    const folder = join(root, 'functions', sweepName);

    const handler = readFileSync(join(folder, 'handler.ts'), 'utf8');

    expect(readdirSync(folder)).toEqual(
      expect.arrayContaining(['handler.ts', 'overdue.ts', 'README.md']),
    );
    expect(handler.split('\n').length).toBeLessThanOrEqual(30);
    expect(handler).not.toMatch(/\bif \(/);
    expect(readdirSync(join(root, 'test/unit/functions', sweepName))).toContain('overdue.test.ts');
  });

  test('every folder of functions is a step, or the sweep', () => {
    expect(readdirSync(join(root, 'functions')).toSorted()).toEqual(
      [...stepNames, sweepName].toSorted(),
    );
  });
});
