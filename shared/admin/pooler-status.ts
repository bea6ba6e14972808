import * as z from 'zod';
import { type Read, present, unknown } from '#shared/kernel/read.ts';
import { type PoolerId, isSamePooler } from '#shared/topology/topology.ts';
import type { DurabilityPolicy, PoolerStatus, ShardRule } from './admin.ts';

/** A message that proto3 JSON leaves out, or writes as null, when it is not set. */
function optional<T extends z.ZodType>(schema: T) {
  return schema.nullish().transform((value) => value ?? null);
}

/** int64 is a string in proto3 JSON, and zero is left out. */
const int64 = z.union([z.string().regex(/^-?\d{1,19}$/), z.int().transform(String)]).default('0');

const idSchema = z.object({ cell: z.string().min(1), name: z.string().min(1) });

const policySchema = z
  .object({
    quorumType: z.string().default(''),
    requiredCount: z.int().min(0).default(0),
  })
  .transform(({ quorumType, requiredCount }): DurabilityPolicy => ({
    kind: policyKind(quorumType),
    requiredCount,
  }));

const ruleSchema = z
  .object({
    ruleNumber: optional(z.object({ coordinatorTerm: int64, leaderSubterm: int64 })),
    leaderId: optional(idSchema),
    cohortMembers: z.array(idSchema).default([]),
    durabilityPolicy: optional(policySchema),
  })
  .transform((rule): ShardRule => ({
    rule: {
      term: rule.ruleNumber?.coordinatorTerm ?? '0',
      subterm: rule.ruleNumber?.leaderSubterm ?? '0',
    },
    leader: rule.leaderId,
    cohort: rule.cohortMembers,
    policy: rule.durabilityPolicy ?? { kind: 'unknown', requiredCount: 0 },
  }));

const answerSchema = z.object({
  status: z.object({
    poolerType: z.string().default(''),
    postgresReady: z.boolean().default(false),
    replicationStatus: optional(z.object({ walReceiverStatus: z.string().default('') })),
  }),
  consensusStatus: optional(
    z.object({
      id: optional(idSchema),
      currentPosition: optional(
        z.object({
          position: optional(
            z.object({ decision: optional(ruleSchema), proposal: optional(ruleSchema) }),
          ),
        }),
      ),
    }),
  ),
});

/**
 * Decodes the body of a pooler's status. Fields that are not known are ignored; a known field of another shape makes
 * the whole answer unknown, because half of it could be read as a safe state.
 */
export function decodePoolerStatus(body: unknown, pooler: PoolerId): Read<PoolerStatus> {
  const subject = `the status of pooler ${pooler.cell}/${pooler.name}`;
  const parsed = answerSchema.safeParse(body);
  if (!parsed.success) {
    const where = parsed.error.issues[0]?.path.join('.') ?? '';
    return unknown(
      `${subject}: the answer has another shape at ${where === '' ? 'its root' : where}`,
    );
  }
  const { status, consensusStatus } = parsed.data;
  const id = consensusStatus?.id ?? pooler;
  if (!isSamePooler(id, pooler)) {
    return unknown(`${subject}: the answer is about ${id.cell}/${id.name}`);
  }
  const role = roleOf(status.poolerType);
  const position = consensusStatus?.currentPosition?.position;
  return present({
    id: { cell: pooler.cell, name: pooler.name },
    role,
    isReady: status.postgresReady,
    isStreaming: role === 'replica' && status.replicationStatus?.walReceiverStatus === 'streaming',
    decision: position?.decision ?? null,
    proposal: position?.proposal ?? null,
  });
}

function roleOf(poolerType: string): PoolerStatus['role'] {
  switch (poolerType) {
    case 'PRIMARY':
      return 'primary';
    case 'REPLICA':
      return 'replica';
    default:
      return 'unknown';
  }
}

function policyKind(quorumType: string): DurabilityPolicy['kind'] {
  switch (quorumType) {
    case 'QUORUM_TYPE_AT_LEAST_N':
      return 'at-least-n';
    case 'QUORUM_TYPE_MULTI_CELL_AT_LEAST_N':
      return 'multi-cell-at-least-n';
    default:
      return 'unknown';
  }
}
