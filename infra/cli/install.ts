import * as z from 'zod';
import { versionLabel } from '#infra/kubernetes/manifest.ts';
import { version } from '#shared/api/version.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { type Definition, readDefinitions } from './definitions.ts';
import { compareVersions } from './version-order.ts';
import { remark, withProgress } from './terminal.ts';

const collection = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';

/** How long the API server may take to serve a definition it has accepted. */
const establishSeconds = 60;

/** Applies every custom resource definition and waits until the API server serves it. */
export async function installDefinitions(connection: KubeConnection): Promise<void> {
  for (const definition of readDefinitions()) {
    await withProgress(`installing ${definition.name}`, install(connection, definition));
    remark(`${definition.name} is installed`);
  }
}

async function install(connection: KubeConnection, definition: Definition): Promise<void> {
  await refuseOlder(connection, definition);
  const answer = await connection.request({
    method: 'PATCH',
    path: `${collection}/${definition.name}`,
    // The definitions are Millrace's own; whoever applied an older version of them gives the fields up.
    query: { fieldManager: 'millrace', force: 'true' },
    contentType: 'application/apply-patch+yaml',
    body: definition.manifest,
  });
  if (answer.status !== 200 && answer.status !== 201) {
    throw new Error(`installing ${definition.name}: ${refusal(answer.status, answer.body)}`);
  }
  await established(connection, definition.name);
}

const servedSchema = z.looseObject({
  metadata: z.looseObject({ labels: z.record(z.string(), z.string()).default({}) }),
});

/** Fields that only a newer definition has would be lost at the next write of each object that has them. */
async function refuseOlder(connection: KubeConnection, { name }: Definition): Promise<void> {
  const answer = await connection.request({ method: 'GET', path: `${collection}/${name}` });
  const served = servedSchema.safeParse(answer.body).data?.metadata.labels[versionLabel];
  if (
    answer.status === 200 &&
    served !== undefined &&
    (compareVersions(served, version) ?? 0) > 0
  ) {
    throw new Error(
      `${name} is of ${served}, and this is ${version}: use millrace ${served}, or, to go back for good, apply the output of \`millrace manifests\` yourself`,
    );
  }
}

const watchEvent = z.looseObject({
  object: z.looseObject({
    status: z
      .looseObject({
        conditions: z.array(z.looseObject({ type: z.string(), status: z.string() })).default([]),
      })
      .optional(),
  }),
});

/** Watches the definition, from its present state on, until it is established. */
async function established(connection: KubeConnection, name: string): Promise<void> {
  const done = new AbortController();
  const watch = await connection.stream({
    method: 'GET',
    path: collection,
    query: {
      watch: 'true',
      fieldSelector: `metadata.name=${name}`,
      timeoutSeconds: String(establishSeconds),
    },
    signal: done.signal,
  });
  if (watch.status !== 200) {
    throw new Error(`watching ${name}: ${refusal(watch.status, watch.body)}`);
  }
  try {
    for await (const line of watch.lines) {
      const event = watchEvent.safeParse(JSON.parse(line));
      const conditions = event.data?.object.status?.conditions ?? [];
      if (conditions.some(({ type, status }) => type === 'Established' && status === 'True')) {
        return;
      }
    }
  } finally {
    done.abort();
  }
  throw new Error(
    `the API server did not serve ${name} within ${establishSeconds} s: look at its status conditions`,
  );
}

/** The API server's own sentence: for definitions it quotes nothing but the definition. */
export function refusal(status: number, body: unknown): string {
  const parsed = z.looseObject({ message: z.string() }).safeParse(body);
  return parsed.success ? parsed.data.message : `status ${status}`;
}
