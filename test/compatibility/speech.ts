import type { Command } from 'commander';
import * as z from 'zod';
import { hintCauses, hintSchema, makeHint, queueName } from '#events/hint.ts';
import { relayConfigSchema } from '#events/relay/config.ts';
import { backupConfigRecordSchema } from '#functions/backup-config/record.ts';
import { backupRecordSchema } from '#functions/backup-trigger/record.ts';
import { cleanupRecordSchema } from '#functions/etcd-cleanup/record.ts';
import { poolPodsRecordSchema } from '#functions/pool-pods/record.ts';
import { releaseRecordSchema } from '#functions/shard-release/record.ts';
import { sweepConfigSchema } from '#functions/sweep/config.ts';
import { makeProgram } from '#infra/cli/program.ts';
import { servedKinds } from '#infra/kubernetes/crd.ts';
import { leaseName } from '#infra/kubernetes/rbac.ts';
import { relayName } from '#infra/kubernetes/relay.ts';
import * as annotations from '#shared/api/annotations.ts';
import { drainRecordSchema } from '#shared/api/drain-record.ts';
import * as labels from '#shared/api/labels.ts';
import {
  type MetricDeclaration,
  functionMetrics,
  processMetrics,
  relayMetrics,
  stepMetrics,
  workerMetrics,
} from '#shared/api/metrics.ts';
import {
  backupJobName,
  claimName,
  podBaseName,
  podName,
  poolerName,
  serviceName,
  sharedBackupClaimName,
} from '#shared/api/names.ts';
import { reasons } from '#shared/api/reasons.ts';
import { ownerObjectName, ownerText } from '#shared/api/repository-owner.ts';
import { type StepName, stepNames } from '#shared/api/steps.ts';
import { version } from '#shared/api/version.ts';
import { formatShard, withPin } from '#shared/goverse/shard-value.ts';
import { handlerConfigSchema } from '#shared/kernel/pipeline.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import type { StepRecord } from '#shared/kernel/record.ts';
import { apiServerSchema } from '#shared/outside/api-server.ts';
import type { Harvest } from './harvest.ts';
import type { JsonSchema } from './narrowing.ts';
import { retired } from './retired.ts';

/** What each step reads its record with. */
export const recordSchemas: { readonly [Step in StepName]: z.ZodType<StepRecord> } = {
  'drain-step': drainRecordSchema,
  'pool-pods': poolPodsRecordSchema,
  'backup-config': backupConfigRecordSchema,
  'backup-trigger': backupRecordSchema,
  'etcd-cleanup': cleanupRecordSchema,
  'shard-release': releaseRecordSchema,
};

/** The form of what a release stores in a cluster, sends, is told and is asked by. */
export const speechSchema = z.strictObject({
  version: z.string(),
  /** Fields, values and names that this release still reads and no longer writes: the next one may drop them. */
  retired: z.array(z.string()),
  /** By what it is of: an object of the API, a record, a hint, a process's environment. */
  schemas: z.record(z.string(), z.record(z.string(), z.unknown())),
  /** What there is of each sort: a later release has all of it, and may have more. */
  names: z.record(z.string(), z.array(z.string())),
  /** What comes out for the same input, to the letter. */
  examples: z.record(z.string(), z.string()),
  /** Records as this release wrote them, by step. */
  records: z.record(z.string(), z.array(z.string())),
});

export type Speech = z.infer<typeof speechSchema>;

/** What the code as it is speaks. */
export function speechOf({ records, conditions }: Harvest): Speech {
  return {
    version,
    retired: [...retired],
    schemas: schemas(),
    names: { ...names(), conditions: [...conditions].toSorted() },
    examples: examples(),
    records: Object.fromEntries(
      stepNames.map((step) => [step, oneOfEachForm([...(records.get(step) ?? [])])]),
    ),
  };
}

function schemas(): Speech['schemas'] {
  return {
    ...Object.fromEntries(servedKinds.map(({ kind, schema }) => [kind, plain(schema)] as const)),
    ...Object.fromEntries(
      stepNames.map((step) => [`record of ${step}`, schemaOf(recordSchemas[step])]),
    ),
    hint: schemaOf(hintSchema),
    'environment of a step': schemaOf(handlerConfigSchema),
    'environment of a step, API server': schemaOf(apiServerSchema),
    'environment of the sweep': schemaOf(sweepConfigSchema),
    'environment of the relay': schemaOf(relayConfigSchema),
  };
}

/** What is read, not what it becomes; refinements have no form in a JSON Schema, and are not compared. */
function schemaOf(schema: z.ZodType): Record<string, unknown> {
  return plain(z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }));
}

/** As it is in JSON, without what is for people. */
function plain(schema: object): Record<string, unknown> {
  return z
    .record(z.string(), z.unknown())
    .parse(
      JSON.parse(
        JSON.stringify(schema, (key: string, value: unknown) =>
          key === '$schema' || (key === 'description' && typeof value === 'string')
            ? undefined
            : value,
        ),
      ),
    );
}

function names(): Speech['names'] {
  const program = makeProgram(() => undefined);
  return {
    annotations: stringsIn(annotations).toSorted(),
    labels: stringsIn(labels).toSorted(),
    steps: [...stepNames],
    reasons: [...reasons],
    'causes of hints': [...hintCauses],
    metrics: [stepMetrics, functionMetrics, relayMetrics, workerMetrics, processMetrics]
      .flatMap((metrics) => Object.entries<MetricDeclaration>(metrics))
      .map(([name, { kind, labels: of }]) => `${kind} ${name}{${of.join(',')}}`)
      .toSorted(),
    commands: commandsOf(program).toSorted(),
  };
}

/** The texts among what a module exports. */
function stringsIn(module: object): readonly string[] {
  return Object.values(module).flatMap((value: unknown) =>
    typeof value === 'string'
      ? [value]
      : Array.isArray(value)
        ? value.filter((each) => typeof each === 'string')
        : [],
  );
}

/** `doctor`, `doctor --json`. */
function commandsOf(program: Command): readonly string[] {
  return program.commands.flatMap((command) => [
    [command.name(), ...command.registeredArguments.map((argument) => `<${argument.name()}>`)].join(
      ' ',
    ),
    ...command.options.map(({ flags }) => `${command.name()} ${flags}`),
  ]);
}

function examples(): Speech['examples'] {
  const base = podBaseName('orders', 'main', 'zone-a');
  const pod = podName(base, 0);
  const pinned = withPin({ target: 'a:1', current: 'b:1', flags: [] }, '0123abcd');
  return {
    'name of a pod': pod,
    'name of its claim': claimName(pod),
    'name of its pooler in a long cell': poolerName('zone-with-a-long-name', pod),
    'name of a Service': serviceName('orders'),
    'name of the claim of backups': sharedBackupClaimName('orders'),
    'name of a Job': backupJobName('orders', 'nightly', '2026-01-01T00:00:00Z', 0),
    'name of a queue': queueName('prod', 'drain-step'),
    'name of the Lease': leaseName,
    'name of the relay': relayName,
    'name of the owner object': ownerObjectName,
    'text of the owner object': ownerText({
      cluster: 'prod',
      namespace: 'db',
      name: 'main',
      uid: 'some-uid',
    }),
    'a pinned shard of GoVerse': pinned === undefined ? '' : formatShard(pinned),
    'a hint': JSON.stringify(hintOfToday()),
  };
}

function hintOfToday() {
  return makeHint({
    step: 'drain-step',
    cause: 'changed',
    source: 'prod',
    target: {
      kind: 'Shard',
      plural: 'shards',
      namespace: 'db',
      name: 'orders',
      uid: 'some-uid',
      resourceVersion: '7',
    },
    token: '7',
    at: 0 as Instant,
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  });
}

/** Of all texts one for each state with each set of fields, so that every form there is stays, and few of each. */
function oneOfEachForm(texts: readonly string[]): string[] {
  const byForm = new Map(texts.toReversed().map((text) => [formOf(JSON.parse(text)), text]));
  return [...byForm.entries()].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, text]) => text);
}

const shapeSchema = z.looseObject({ state: z.string() });

function formOf(record: unknown): string {
  return `${shapeSchema.parse(record).state} ${fieldsOf(record).join()}`;
}

function fieldsOf(value: unknown): readonly string[] {
  if (typeof value !== 'object' || value === null) {
    return [];
  }
  const isList = Array.isArray(value);
  return [
    ...new Set(
      Object.entries(value).flatMap(([name, field]) => [
        ...(isList ? [] : [name]),
        ...fieldsOf(field).map((inner) => `${isList ? '' : `${name}.`}${inner}`),
      ]),
    ),
  ].toSorted();
}

/** A JSON Schema of a released speech. */
export function schemaIn(speech: Speech, name: string): JsonSchema {
  return speech.schemas[name] ?? {};
}
