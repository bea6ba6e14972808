import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import * as z from 'zod';
import type { DecisionLine } from '#infra/cli/dev/decision-line.ts';
import type { AuditedRequest } from '#infra/local/control-plane/audit-log.ts';
import { deadLetters, prepare, setReplicas, untilSteady } from '#infra/local/show/acts.ts';
import { type MillraceProcess, startMillrace } from '#infra/local/show/millrace-process.ts';
import { recordAnnotation } from '#shared/api/annotations.ts';
import { version } from '#shared/api/version.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import { useStage } from './a-stage.ts';
import { missingControlPlane } from './local-control-plane.ts';
import {
  type TwoVersions,
  definitionsOf,
  makeTwoVersions,
  nextVersion,
  note,
} from './next-version.ts';

/** Drains with both versions at work; `MILLRACE_DRAINS=20` for a long run by hand. */
const drains = Number(process.env['MILLRACE_DRAINS'] ?? 3);

let versions: TwoVersions;
const stageUnderTest = useStage({
  async makeCommand(folder) {
    versions = await makeTwoVersions(folder, 1);
    return versions.older;
  },
});
const laterDecisions: DecisionLine[] = [];
const remarks: string[] = [];
let newer: MillraceProcess;

beforeAll(async () => {
  if (missingControlPlane !== undefined) {
    return;
  }
  await prepare(stageUnderTest().stage);
  const { folder, stage } = stageUnderTest();
  newer = await startMillrace({
    command: versions.newer,
    kubeconfig: join(folder, 'kubeconfig'),
    namespace: stage.namespace,
    dataDir: join(folder, 'newer-data'),
    onDecision: (decision) => laterDecisions.push(decision),
    onRemark: (line) => remarks.push(line),
  });
});

afterAll(async () => {
  if (missingControlPlane === undefined) {
    await newer.stop();
  }
});

const recordSchema = z.looseObject({
  state: z.string(),
  data: z.looseObject({ podUid: z.string(), note: z.string().optional() }),
});

/** Every value that drain-step's record takes while the work runs, `null` where there is none. */
async function recordsDuring(work: () => Promise<void>) {
  const { world, shard } = stageUnderTest().stage;
  const seen: (string | null)[] = [];
  const look = () => {
    const text =
      world.get('Shard', shard)?.metadata.annotations?.[recordAnnotation('drain-step')] ?? null;
    if (text !== seen.at(-1)) {
      seen.push(text);
    }
  };
  const stopLooking = world.onChange(look);
  await work();
  stopLooking();
  return seen.map((text) => (text === null ? null : recordSchema.parse(JSON.parse(text))));
}

/** Records with what only the newer version writes, over all drains. */
let withNote = 0;

/** Who wrote anything, by version. */
const writers = new Set<string>();

function succeeded({ status = 0 }: AuditedRequest): boolean {
  return status < 300;
}

function isWrite({ verb, resource }: AuditedRequest): boolean {
  return !['get', 'list', 'watch'].includes(verb) && resource !== 'events';
}

/** As whoever installed them before, so that fields which these do not have go. */
async function applyDefinitions(command: string): Promise<void> {
  for (const body of await definitionsOf(command)) {
    const { name } = namedSchema.parse(body).metadata;
    const answer = await stageUnderTest().stage.connection.request({
      method: 'PATCH',
      path: `${collectionPath('CustomResourceDefinition', undefined)}/${name}`,
      query: { fieldManager: 'millrace', force: 'true' },
      contentType: 'application/apply-patch+yaml',
      body,
    });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  }
}

const namedSchema = z.looseObject({ metadata: z.looseObject({ name: z.string() }) });

describe('two versions side by side, with two relays and one queue each', () => {
  test.each(Array.from({ length: drains }, (_, place) => place))(
    'drain one member at a time, once, and what the newer one wrote stays (P7, F29), drain %i',
    async () => {
      const { stage } = stageUnderTest();
      await prepare(stage);
      let requests: readonly AuditedRequest[] = [];

      const records = await recordsDuring(async () => {
        requests = await stageUnderTest().during(async () => {
          await setReplicas(stage, 2);
          await untilSteady(stage, 2);
        });
      });

      const deletes = requests.filter(
        (request) => request.verb === 'delete' && succeeded(request) && isWrite(request),
      );
      expect(new Set(deletes.map(({ resource, name }) => `${resource} ${name}`)).size).toBe(1);
      expect(deletes.every(({ resource }) => resource === 'pods')).toBe(true);
      const open = records.filter((record) => record !== null);
      expect(new Set(open.map(({ data }) => data.podUid)).size).toBe(1);
      // Once the newer version has written something, it is never written without that.
      const notes = open.map(({ data }) => data.note);
      const since = notes.slice(notes.includes(note) ? notes.indexOf(note) : notes.length);
      expect(since).toEqual(since.map(() => note));
      withNote += since.length;
      // Nobody takes back what the other has written, again and again.
      const states = open.map(({ state }) => state);
      expect(states.filter((state, place) => state !== states[place - 1])).toHaveLength(4);
      const writes = requests.filter(
        (request) => request.userAgent === 'millrace/drain-step' && isWrite(request),
      );
      requests.filter(isWrite).forEach(({ agentVersion }) => writers.add(agentVersion));
      expect(writes.filter(succeeded).length).toBeLessThanOrEqual(40);
      expect(await deadLetters(stage)).toBe(0);
    },
  );

  test('both have worked, and the older one said that it left records of the newer one alone', () => {
    const { decisions } = stageUnderTest();
    const told = [...decisions, ...laterDecisions].filter(
      ({ reason, step }) => reason === 'RecordUnreadable' && step === 'drain-step',
    );

    expect(writers).toEqual(new Set([version, nextVersion]));
    expect(withNote).toBeGreaterThan(0);
    expect(told.length).toBeGreaterThan(0);
    expect(told.every(({ effects }) => !effects.includes('deleteObject'))).toBe(true);
  });
});

describe('newer functions on older definitions: functions before definitions, or definitions taken back', () => {
  const isTold = () =>
    remarks.some((line) => line.includes(`apply the definitions of millrace ${nextVersion}`));

  test('say which ones they wait for, delete nothing twice, and go on once these are there', async () => {
    const { stage, during } = stageUnderTest();
    await applyDefinitions(versions.older);

    // The older functions may do all of a drain; then the next one tells.
    for (let drain = 0; drain < 5 && !isTold(); drain += 1) {
      await prepare(stage);
      const requests = await during(async () => {
        await setReplicas(stage, 2);
        const isOver = untilSteady(stage, 2).then(() => true);
        isOver.catch(() => false);
        await Promise.race([isOver, stage.world.until('it is told', 180, isTold)]);
        await applyDefinitions(isTold() ? versions.newer : versions.older);
        await untilSteady(stage, 2);
      });
      const deleted = requests.filter(
        (request) => request.verb === 'delete' && succeeded(request) && isWrite(request),
      );
      expect(new Set(deletes(deleted)).size).toBe(1);
    }

    expect(isTold()).toBe(true);
  });
});

function deletes(requests: readonly AuditedRequest[]): readonly string[] {
  return requests.map(({ resource, name }) => `${resource} ${name}`);
}
