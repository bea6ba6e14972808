import { describe, expect, test } from 'vitest';
import { prepare } from '#infra/local/show/acts.ts';
import { archiveFolder } from '#infra/local/show/build-stage.ts';
import type { DecisionEntry, HintEntry } from '#shared/archive/entry.ts';
import { folderSegments } from '#shared/archive/folder-segments.ts';
import { readLines } from '#shared/archive/lines.ts';
import { parseEntry } from '#shared/archive/segment.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import { useStage } from './a-stage.ts';

/** `millrace dev --record` on a real API server, and what of it is in the archive. */
const stageUnderTest = useStage({ isRecorded: true });

/** Where a person may have put something that nobody else is to read. */
const canary = {
  environment: 'canary-in-a-variable',
  argument: '--password=canary-in-an-argument',
  image: 'registry.example/canary-in-an-image:1',
  annotation: 'canary-in-an-annotation',
  podAnnotation: 'canary-in-an-annotation-of-pods',
  secret: 'canary-in-a-secret',
} as const;

async function plant(): Promise<void> {
  const { stage, patchShard } = stageUnderTest();
  await stage.connection.request({
    method: 'POST',
    path: collectionPath('Secret', stage.namespace),
    body: { metadata: { name: 'keys' }, stringData: { password: canary.secret } },
  });
  const shard = stage.world.get('Shard', stage.shard);
  const [pool] = shard?.spec.pools ?? [];
  await patchShard({
    metadata: {
      annotations: { 'kubectl.kubernetes.io/last-applied-configuration': canary.annotation },
    },
    spec: {
      pools: [
        {
          ...pool,
          replicasPerCell: 2,
          podTemplate: {
            metadata: { annotations: { 'example.com/note': canary.podAnnotation } },
            spec: {
              containers: [
                {
                  name: 'pooler',
                  image: canary.image,
                  args: [canary.argument],
                  env: [
                    { name: 'PASSWORD', value: canary.environment },
                    {
                      name: 'KEY',
                      valueFrom: { secretKeyRef: { name: 'keys', key: 'password' } },
                    },
                  ],
                },
              ],
            },
          },
        },
      ],
    },
  });
}

/** Every line of the archive, as text. */
async function archivedLines(): Promise<readonly string[]> {
  const archive = folderSegments(archiveFolder(stageUnderTest().folder));
  const lines: string[] = [];
  for (const kind of ['decisions/', 'hints/']) {
    for await (const key of archive.list(kind)) {
      for await (const line of readLines(archive.get(key))) {
        expect(line.kind, key).toBe('line');
        lines.push(line.kind === 'line' ? line.text : '');
      }
    }
  }
  return lines;
}

describe('the archive of a recorded run', () => {
  test('holds every look and every hint, and nothing that people put into templates, annotations and Secrets', async () => {
    const { stage, decisions } = stageUnderTest();
    await prepare(stage);
    await plant();
    await stage.world.until('a member is drained with the new template in force', 60, () =>
      decisions.some(({ reason }) => reason === 'MemberLeft'),
    );
    await stage.world.until(
      'pods that are behind the template are told',
      60,
      () =>
        stage.world
          .get('Shard', stage.shard)
          ?.status?.conditions?.some(({ reason }) => reason === 'TemplateChanged') === true,
    );
    const toldSteps = new Set(decisions.map(({ step }) => step));

    // What is recorded is written before its invocation ends, and a hint's segment when its relay does.
    await stage.millrace.stop();
    const lines = await archivedLines();

    const entries = lines.map(parseEntry);
    const looks = entries.filter((entry): entry is DecisionEntry => entry?.kind === 'decision');
    const hints = entries.filter((entry): entry is HintEntry => entry?.kind === 'hint');
    expect(looks.length + hints.length).toBe(lines.length);
    expect(new Set(looks.map(({ step }) => step))).toEqual(toldSteps);
    expect(textsOf(looks)).toEqual(expect.arrayContaining([...new Set(decisions.map(textOf))]));
    expect(new Set(hints.map(({ step }) => step)).size).toBeGreaterThan(2);
    expect(looks.filter(({ carriedOut }) => carriedOut !== undefined)).toEqual([]);
    for (const [place, planted] of Object.entries(canary)) {
      expect(
        lines.filter((line) => line.includes(planted)),
        place,
      ).toEqual([]);
    }
    expect(lines.some((line) => line.includes('PASSWORD'))).toBe(true);
  });
});

function textOf({ step, reason, message }: { step: string; reason: string; message: string }) {
  return `${step} ${reason}: ${message}`;
}

function textsOf(looks: readonly DecisionEntry[]): readonly string[] {
  return looks.flatMap(({ step, decision, result }) =>
    decision === undefined || result.kind === 'failed' ? [] : [textOf({ step, ...decision })],
  );
}
