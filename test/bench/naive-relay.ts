/**
 * The peer of the relay in `relay.ts`: what one would write first, with the client libraries as their documentation shows
 * them. Informers for pods and shards; each of their events queues a hint about the shard for every step; what has
 * queued within 50 ms is sent in batches of ten.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { SQSClient, SendMessageBatchCommand } from '@aws-sdk/client-sqs';
import {
  CoreV1Api,
  CustomObjectsApi,
  KubeConfig,
  type KubernetesListObject,
  type KubernetesObject,
  makeInformer,
} from '@kubernetes/client-node';

const { QUEUE_URLS: queueUrls = '', QUEUE_ENDPOINT: endpoint = '' } = process.env;
const label = 'millrace.dev/shard';
const gatherMs = 50;
const retryMs = 5_000;

const config = new KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(CoreV1Api);
const custom = config.makeApiClient(CustomObjectsApi);
const sqs = new SQSClient({ endpoint, useQueueUrlAsEndpoint: false });

const waiting = new Map<string, { uid: string; body: string }>();

function hint(object: KubernetesObject, name: string | undefined): void {
  const { uid = '', namespace, resourceVersion } = object.metadata ?? {};
  waiting.set(`${namespace}/${name}`, { uid, body: JSON.stringify({ name, resourceVersion }) });
}

async function send(): Promise<void> {
  const hints = [...waiting.values()];
  waiting.clear();
  for (let start = 0; start < hints.length; start += 10) {
    const Entries = hints.slice(start, start + 10).map(({ uid, body }, place) => {
      return { Id: String(place), MessageBody: body, MessageGroupId: uid };
    });
    for (const QueueUrl of queueUrls.split(',')) {
      await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries })).catch(console.error);
    }
  }
}

const shards = { group: 'millrace.dev', version: 'v1alpha1', plural: 'shards' };
const informers = [
  makeInformer(
    config,
    '/api/v1/pods',
    () => core.listPodForAllNamespaces({ labelSelector: label }),
    label,
  ),
  makeInformer(
    config,
    '/apis/millrace.dev/v1alpha1/shards',
    (): Promise<KubernetesListObject<KubernetesObject>> => custom.listClusterCustomObject(shards),
  ),
];
for (const informer of informers) {
  const hear = (object: KubernetesObject): void =>
    hint(object, object.metadata?.labels?.[label] ?? object.metadata?.name);
  informer.on('add', hear);
  informer.on('update', hear);
  informer.on('delete', hear);
  informer.on('error', () => setTimeout(() => void informer.start(), retryMs));
  void informer.start();
}

for (;;) {
  await delay(gatherMs);
  await send();
}
