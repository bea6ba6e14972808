import { execFile } from 'node:child_process';
import { cp, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { SQSEvent } from 'aws-lambda';
import { makeHint } from '#events/hint.ts';
import { routing } from '#events/routes.ts';
import { writeCredentials } from '#infra/cli/dev/credentials.ts';
import { makeEvent, makeScheduledEvent } from '#infra/local/worker/event.ts';
import { type FunctionName, type StepName, stepNames, sweepName } from '#shared/api/steps.ts';
import { wallClock } from '#shared/kernel/instant.ts';
import { resourceTypes } from '#shared/kube/resources.ts';
import { databaseManifest } from '#test/builders/manifest.ts';
import { bundlePeer } from '../bundle-peer.ts';
import { type Cluster, clusterId, millraceUser } from '../installation.ts';
import { create, namespace, shardManifest } from '../objects.ts';
import type { Contender } from './function-process.ts';

const root = new URL('../../..', import.meta.url).pathname;
const region = 'us-east-1';

/** What every function of Lambda has in its environment besides what the runtime client asks for. */
const lambdaEnvironment = {
  AWS_REGION: region,
  AWS_ACCESS_KEY_ID: 'bench',
  AWS_SECRET_ACCESS_KEY: 'bench',
  PATH: process.env['PATH'] ?? '',
  TZ: ':UTC',
};

/** A namespace without any object: a hint about one there is about one that is gone. */
const emptyNamespace = 'default';

/** Targets of the looks that are measured. */
export interface Targets {
  /** A paused Shard: the look reads it and ends. */
  readonly paused: Uid;
  /** A Shard of whose Database and topology all is read, and from which nobody leaves. */
  readonly whole: Uid;
}

interface Uid {
  readonly name: string;
  readonly uid: string;
}

/** One Shard that is paused, and one whose topology is a real etcd that knows no member yet. */
export async function createTargets({ connection, topologyEtcd }: Cluster): Promise<Targets> {
  await create(
    connection,
    'Database',
    databaseManifest('main', {
      endpoint: topologyEtcd.endpoint,
      adminUrl: topologyEtcd.endpoint,
    }),
  );
  const plain = shardManifest('', 'main');
  const make = async (name: string, isPaused: boolean): Promise<Uid> => {
    const { metadata } = await create(connection, 'Shard', {
      ...plain,
      metadata: { name },
      spec: { ...(plain['spec'] as object), paused: isPaused },
    });
    return { name, uid: metadata.uid };
  };
  return { paused: await make('orders', true), whole: await make('customers', false) };
}

/** Ours as they are packaged. */
export class Packaged {
  readonly #credentials: Readonly<Record<string, string>>;

  private constructor(credentials: Readonly<Record<string, string>>) {
    this.#credentials = credentials;
  }

  /** Builds all functions. */
  static async build({ folder, controlPlane }: Cluster): Promise<Packaged> {
    await promisify(execFile)(process.execPath, [join(root, 'infra/build.ts')]);
    const access = controlPlane.access(millraceUser);
    return new Packaged(await writeCredentials(join(folder, 'functions'), access));
  }

  /** The environment of a peer that reads the same object from the same server. */
  get peerEnvironment(): Readonly<Record<string, string>> {
    return { ...lambdaEnvironment, ...this.#credentials };
  }

  /** A step asked to look at one target; by its own API server when none is given. */
  step(name: StepName, target: Uid, server?: string): Contender {
    return {
      name,
      folder: join(root, 'dist', name),
      environment: {
        ...this.peerEnvironment,
        MILLRACE_CLUSTER_ID: clusterId,
        ...(server === undefined ? {} : { MILLRACE_KUBE_SERVER: server }),
      },
      event: hintEvent(name, namespace, target),
    };
  }

  /** Each function once, with the shortest of its invocations: a target that is gone, nothing to sweep. */
  each(queueEndpoint: string): readonly Contender[] {
    const steps = stepNames.map((name) => ({
      ...this.step(name, { name: 'gone', uid: 'none' }),
      event: hintEvent(name, emptyNamespace, { name: 'gone', uid: 'none' }),
    }));
    return [...steps, this.#sweep(queueEndpoint)];
  }

  #sweep(queueEndpoint: string): Contender {
    return {
      name: sweepName,
      folder: join(root, 'dist', sweepName),
      environment: {
        ...this.peerEnvironment,
        MILLRACE_CLUSTER_ID: clusterId,
        MILLRACE_STAGE: 'bench',
        MILLRACE_NAMESPACES: emptyNamespace,
        MILLRACE_QUEUE_ENDPOINT: queueEndpoint,
      },
      event: makeScheduledEvent(new Date(), { functionName: 'bench-sweep', region }),
    };
  }
}

/** What ours is measured beside, bundled as ours is. */
export async function bundlePeers(
  cluster: Cluster,
  environment: Readonly<Record<string, string>>,
): Promise<{ readonly empty: Contender; readonly get: Contender; readonly naive: Contender }> {
  const peer = async (
    name: string,
    more: Readonly<Record<string, string>> = {},
  ): Promise<Contender> => {
    const folder = join(cluster.folder, name);
    await mkdir(folder, { recursive: true });
    const entry = new URL(`${name}-handler.ts`, import.meta.url).pathname;
    await bundlePeer({ entryPoints: [entry] }, join(folder, 'index.mjs'));
    const event = makeEvent([], { arn: '', region });
    return { name, folder, environment: { ...environment, ...more }, event };
  };
  const naive = await peer('naive', {
    KUBECONFIG: cluster.kubeconfigPath,
    ETCD_ENDPOINT: cluster.topologyEtcd.endpoint,
  });
  await cp(join(root, 'node_modules/etcd3/proto'), join(naive.folder, 'proto'), {
    recursive: true,
  });
  return { empty: await peer('empty'), get: await peer('get'), naive };
}

function hintEvent(step: FunctionName, targetNamespace: string, { name, uid }: Uid): SQSEvent {
  const kind = routing.routes.find((route) => route.step === step)?.target;
  if (kind === undefined || step === sweepName) {
    throw new Error(`${step} has no target`);
  }
  const { plural } = resourceTypes[kind];
  const hint = makeHint({
    step,
    cause: 'replay',
    source: clusterId,
    target: { kind, plural, namespace: targetNamespace, name, uid },
    token: 'bench',
    at: wallClock(),
  });
  const message = { MessageId: '1', ReceiptHandle: '1', Body: JSON.stringify(hint) };
  return makeEvent([message], { arn: 'arn:aws:sqs:us-east-1:000000000000:bench', region });
}
