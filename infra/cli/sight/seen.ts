import * as z from 'zod';
import { backupTypes, slotResults } from '#shared/api/backup.ts';
import { staleCauses } from '#shared/api/cleanup.ts';
import { drainCauses } from '#shared/api/drain-record.ts';
import { durationSeconds } from '#shared/api/duration.ts';
import { type Instant, parseInstant } from '#shared/kernel/instant.ts';
import type { TargetKind } from '#shared/kube/resources.ts';

/*
 * What is read of an object. Whatever has not its form counts as not there: an object that somebody filled strangely, or that
 * another version wrote, must still be explained.
 */

const text = z.string().optional().catch(undefined);
const number = z.number().optional().catch(undefined);
const flag = z.boolean().catch(false);

/** The items that have the form; others are passed over. */
function items<T>(item: z.ZodType<T>) {
  return z
    .array(z.unknown())
    .catch([])
    .transform((found) =>
      found.flatMap((one) => {
        const parsed = item.safeParse(one);
        return parsed.success ? [parsed.data] : [];
      }),
    );
}

function part<T extends z.ZodRawShape>(shape: T) {
  return z.object(shape).optional().catch(undefined);
}

const conditionSchema = z.object({
  type: z.string(),
  status: z.enum(['True', 'False', 'Unknown']).catch('Unknown'),
  reason: z.string().catch(''),
  message: z.string().catch(''),
  observedGeneration: number,
  lastTransitionTime: text,
});

export type SeenCondition = z.output<typeof conditionSchema>;

const scheduleSchema = z.object({
  schedule: z.string(),
  lastSlot: text,
  lastResult: z
    .enum([...slotResults, 'running'])
    .optional()
    .catch(undefined),
  lastReason: text,
  lastSuccess: text,
  next: items(z.string()),
});

export type SeenSchedule = z.output<typeof scheduleSchema>;

const candidateSchema = z.object({ pooler: z.string(), why: z.enum(staleCauses), since: text });

const statusSchema = z.object({
  conditions: items(conditionSchema),
  pools: items(z.object({ name: z.string(), desired: z.number(), ready: z.number() })),
  drain: part({
    pod: z.string(),
    cause: z.enum(drainCauses).optional().catch(undefined),
    since: text,
    waitsFor: text,
  }),
  backups: items(scheduleSchema),
  backupRun: part({ schedule: z.string(), slot: z.string(), since: text, job: text }),
  lastBackup: part({ any: text, full: text }),
  nextBackup: text,
  cleanup: part({ candidates: items(candidateSchema) }),
  repository: part({ hash: z.string(), owner: text, checkedAt: text }),
  draining: part({ pod: z.string(), left: z.number(), since: text }),
  nodes: number,
});

type Status = z.output<typeof statusSchema>;

const poolSchema = z.object({
  name: z.string(),
  replicasPerCell: z.number().catch(1),
});

const specSchema = z.object({
  paused: flag,
  databaseRef: part({ name: z.string() }),
  drain: part({ deadline: z.string() }),
  pools: items(poolSchema),
  shutdown: part({ timeout: z.string() }),
  backup: part({
    schedules: items(z.object({ name: z.string(), type: z.enum(backupTypes).catch('full') })),
  }),
});

type Spec = z.output<typeof specSchema>;

const managedSchema = z.object({
  time: z.string(),
  manager: text,
  subresource: text,
  fieldsV1: z.record(z.string(), z.unknown()),
});

const metadataSchema = z.object({
  name: z.string().catch(''),
  namespace: z.string().catch(''),
  uid: z.string().catch(''),
  generation: z.number().catch(0),
  creationTimestamp: text,
  deletionTimestamp: text,
  annotations: z.record(z.string(), z.string()).catch({}),
  finalizers: items(z.string()),
  managedFields: items(managedSchema),
});

const objectSchema = z.object({
  metadata: metadataSchema.catch(() => metadataSchema.parse({})),
  spec: specSchema.catch(() => specSchema.parse({})),
  status: statusSchema.catch(() => statusSchema.parse({})),
});

/** One target as far as it is looked at. */
export interface SeenTarget {
  readonly kind: TargetKind;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly generation: number;
  readonly createdAt: Instant | null;
  readonly deletedAt: Instant | null;
  /** When the spec got its present generation; `null` where that cannot be told. */
  readonly changedAt: Instant | null;
  /** When each writer of a part of the status last changed it; of whom that cannot be told is not here. */
  readonly toldAt: { readonly [manager: string]: Instant };
  readonly annotations: { readonly [key: string]: string };
  readonly finalizers: readonly string[];
  readonly spec: Spec;
  readonly status: Status;
}

/** A pod that belongs to a target. */
export interface SeenPod {
  readonly name: string;
  readonly uid: string;
  readonly deletedAt: Instant | null;
  /** By its condition; one that says nothing is not. */
  readonly isReady: boolean;
  readonly finalizers: readonly string[];
  readonly annotations: { readonly [key: string]: string };
}

/** Whatever stands in the object: this never throws. */
export function seenTarget(kind: TargetKind, object: unknown): SeenTarget {
  const { metadata, spec, status } = objectSchema.catch(() => objectSchema.parse({})).parse(object);
  const { namespace, name, uid, generation, annotations, finalizers } = metadata;
  return {
    kind,
    namespace,
    name,
    uid,
    generation,
    createdAt: parseInstant(metadata.creationTimestamp) ?? null,
    deletedAt: parseInstant(metadata.deletionTimestamp) ?? null,
    changedAt: specChangedAt(metadata.managedFields),
    toldAt: statusChangedAt(metadata.managedFields),
    annotations,
    finalizers,
    spec,
    status,
  };
}

export function seenPod(object: unknown): SeenPod {
  const { metadata, status } = objectSchema.catch(() => objectSchema.parse({})).parse(object);
  return {
    name: metadata.name,
    uid: metadata.uid,
    deletedAt: parseInstant(metadata.deletionTimestamp) ?? null,
    isReady: isReady(status),
    finalizers: metadata.finalizers,
    annotations: metadata.annotations,
  };
}

function isReady({ conditions }: Status): boolean {
  return conditions.some(({ type, status }) => type === 'Ready' && status === 'True');
}

/** The newest time at which anybody wrote the spec. */
function specChangedAt(managed: readonly z.output<typeof managedSchema>[]): Instant | null {
  const times = managed
    .filter(({ subresource = '', fieldsV1 }) => subresource === '' && 'f:spec' in fieldsV1)
    .flatMap(({ time }) => parseInstant(time) ?? []);
  return times.length === 0 ? null : (Math.max(...times) as Instant);
}

function statusChangedAt(
  managed: readonly z.output<typeof managedSchema>[],
): Readonly<Record<string, Instant>> {
  return Object.fromEntries(
    managed.flatMap(({ manager, subresource, time }) => {
      const at = parseInstant(time);
      return manager === undefined || subresource !== 'status' || at === undefined
        ? []
        : [[manager, at] as const];
    }),
  );
}

/** The seconds of a duration; the default where it is none. */
export function secondsOf(duration: string | undefined, otherwise: number): number {
  try {
    return duration === undefined ? otherwise : durationSeconds(duration);
  } catch {
    return otherwise;
  }
}

export function conditionOf({ status }: SeenTarget, type: string): SeenCondition | undefined {
  return status.conditions.find((condition) => condition.type === type);
}
