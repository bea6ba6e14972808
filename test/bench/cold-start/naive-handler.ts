/**
 * The peer of the handlers: what one would write first, with the client libraries of everything that Millrace talks to, as
 * their documentation shows them. Clients are made when the module is loaded, and one object is read for each event.
 */
import { S3Client } from '@aws-sdk/client-s3';
import { SQSClient } from '@aws-sdk/client-sqs';
import { CustomObjectsApi, KubeConfig } from '@kubernetes/client-node';
import { Etcd3 } from 'etcd3';

const config = new KubeConfig();
config.loadFromDefault();
const custom = config.makeApiClient(CustomObjectsApi);
/** Idle here, as in most looks; they are kept for those that need them. */
export const clients = {
  s3: new S3Client({}),
  sqs: new SQSClient({}),
  etcd: new Etcd3({ hosts: process.env['ETCD_ENDPOINT'] ?? '' }),
};

export const handler = async () => {
  const shard: unknown = await custom.getNamespacedCustomObject({
    group: 'millrace.dev',
    version: 'v1alpha1',
    namespace: 'bench',
    plural: 'shards',
    name: 'orders',
  });
  if (!(typeof shard === 'object' && shard !== null && 'spec' in shard)) {
    throw new Error('the shard was not read');
  }
  return { batchItemFailures: [] };
};
