import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect } from 'vitest';
import type { DecisionLine } from '#infra/cli/dev/decision-line.ts';
import { admissionPolicies } from '#infra/kubernetes/admission.ts';
import type { Manifest } from '#infra/kubernetes/manifest.ts';
import { type AuditedRequest, readAuditLog } from '#infra/local/control-plane/audit-log.ts';
import { type BuiltStage, type StageTopology, buildStage } from '#infra/local/show/build-stage.ts';
import type { Stage } from '#infra/local/show/stage.ts';
import type { Condition } from '#shared/api/shard.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import { stepNames } from '#shared/api/steps.ts';
import { applyTo } from './installed.ts';
import { missingControlPlane } from './local-control-plane.ts';

/** How much faster than measured the data plane runs. Millrace's own waits are not shortened. */
const speed = 8;

export interface StageUnderTest extends BuiltStage {
  readonly folder: string;
  /** Every decision of `millrace dev` since the start, in the order in which they were printed. */
  readonly decisions: DecisionLine[];
  /** What Millrace asked of the API server while the work ran. */
  readonly during: (work: () => Promise<void>) => Promise<readonly AuditedRequest[]>;
  /** Changes the stage's Shard as a person would; fails the test where that is refused. */
  readonly patchShard: (body: unknown, contentType?: string) => Promise<void>;
  /** The condition of the stage's Shard that tells of its drain. */
  readonly drained: () => Condition | undefined;
}

export interface StageUse {
  /** Starts what the topology is kept in; a plain etcd when absent. */
  readonly startTopology?: (folder: string) => Promise<StageTopology & AsyncDisposable>;
  /** Makes the installation whose `millrace dev` is run, and returns its command; this one when absent. */
  readonly makeCommand?: (folder: string) => Promise<string>;
  /** Told every line that `millrace dev` writes to stderr. */
  readonly onRemark?: (line: string) => void;
  /** Starts an S3 server too. */
  readonly hasBucket?: boolean;
  /** Puts the admission policies in force, for which all of `millrace dev` is the steps' user. */
  readonly hasPolicies?: boolean;
  /** Has `millrace dev` record every decision and hint. */
  readonly isRecorded?: boolean;
}

/** Gives the file a control plane, a stand-in data plane and `millrace dev`, from before its first to after its last test. */
export function useStage({
  startTopology,
  makeCommand,
  onRemark,
  hasBucket = false,
  hasPolicies = false,
  isRecorded = false,
}: StageUse = {}): () => StageUnderTest {
  let folder: string | undefined;
  let topology: (StageTopology & AsyncDisposable) | undefined;
  let stage: StageUnderTest | undefined;

  beforeAll(async () => {
    if (missingControlPlane !== undefined) {
      process.stderr.write(`skipped, since ${missingControlPlane}\n`);
      return;
    }
    folder = await mkdtemp(join(tmpdir(), 'millrace-stage-'));
    const decisions: DecisionLine[] = [];
    const nothing = () => undefined;
    const screen = {
      progress: nothing,
      scene: nothing,
      say: onRemark ?? nothing,
      table: nothing,
      decision: (decision: DecisionLine) => decisions.push(decision),
      members: nothing,
      result: nothing,
      summary: nothing,
      close: nothing,
    };
    topology = await startTopology?.(folder);
    const command = await makeCommand?.(folder);
    const built = await buildStage({
      folder,
      speed,
      screen,
      hasBucket,
      signal: new AbortController().signal,
      isRecorded,
      ...(topology === undefined ? {} : { topology }),
      ...(command === undefined ? {} : { command }),
    });
    for (const policy of hasPolicies ? policiesFor(built.millraceUser) : []) {
      await applyTo(built.stage.connection, policy);
    }
    const during = async (work: () => Promise<void>) => {
      const from = (await auditedRequests(built)).length;
      await work();
      return (await auditedRequests(built)).slice(from);
    };
    stage = {
      ...built,
      folder,
      decisions,
      during,
      patchShard: (body, contentType) => patchShard(built.stage, body, contentType),
      drained: () =>
        built.stage.world
          .get('Shard', built.stage.shard)
          ?.status?.conditions?.find(({ type }) => type === 'Drained'),
    };
  });

  beforeEach((context) => {
    context.skip(missingControlPlane !== undefined, missingControlPlane);
  });

  afterAll(async () => {
    await stage?.[Symbol.asyncDispose]();
    await topology?.[Symbol.asyncDispose]();
    await (folder === undefined ? undefined : rm(folder, { recursive: true, force: true }));
  });

  return () => {
    if (stage === undefined) {
      throw new Error(missingControlPlane ?? 'the stage stands only during tests');
    }
    return stage;
  };
}

function policiesFor(user: string): readonly Manifest[] {
  const users = Object.fromEntries(stepNames.map((step) => [step, [user]]));
  return admissionPolicies({
    namespace: 'millrace',
    workNamespaces: [],
    secrets: [],
    services: [],
    users,
  });
}

async function patchShard(
  { connection, namespace, shard }: Stage,
  body: unknown,
  contentType = 'application/merge-patch+json',
): Promise<void> {
  const path = `${collectionPath('Shard', namespace)}/${shard}`;
  const answer = await connection.request({ method: 'PATCH', path, contentType, body });
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
}

let marks = 0;

/** The audit log may lag its requests: it is read until a marker request of ours shows in it. */
async function auditedRequests(built: BuiltStage): Promise<readonly AuditedRequest[]> {
  marks += 1;
  const marker = `${process.pid}-${marks}`;
  await built.stage.connection.request({ method: 'GET', path: '/version', query: { marker } });
  for (;;) {
    const log = await readAuditLog(built.controlPlane.auditLogPath);
    if (log.some(({ path }) => path === `/version?marker=${marker}`)) {
      return log.filter(({ user }) => user === built.millraceUser);
    }
  }
}
