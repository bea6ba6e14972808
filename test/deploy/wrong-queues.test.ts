import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CreateQueueCommand, SQSClient } from '@aws-sdk/client-sqs';
import { PutParameterCommand, SSMClient } from '@aws-sdk/client-ssm';
import {
  afterAll,
  beforeAll,
  beforeEach,
  describe,
  expect,
  onTestFinished,
  test,
  vi,
} from 'vitest';
import { openQueues } from '#events/sending.ts';
import { findMissingPython } from '#infra/local/cloud/install.ts';
import {
  type Cloud,
  cloudAccount,
  cloudAdministrator,
  cloudRegion,
  startCloud,
} from '#infra/local/cloud/start.ts';
import { findFreePort } from '#infra/local/control-plane/port.ts';
import { tokenFromParameter } from '#shared/outside/token-parameter.ts';
import { type AccessKey, clientOf, createUser } from './deployment.ts';

const isRequired = (process.env['CI'] ?? '') !== '';
const missing = isRequired ? undefined : await findMissingPython();
if (missing !== undefined) {
  process.stderr.write(`tests of wrong queues are skipped: ${missing}\n`);
}

const queue = 'millrace-prod-drain-step';

describe.skipIf(missing !== undefined)('what AWS refuses is said with what to do', () => {
  let folder: string;
  let cloud: Cloud;
  let stranger: AccessKey;
  let reader: AccessKey;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'millrace-queues-'));
    cloud = await startCloud({ dataDir: folder });
    stranger = await createUser(cloud, 'stranger', 'sqs:ListQueues');
    reader = await createUser(cloud, 'reader', 'ssm:GetParameter');
    const sqs = new SQSClient(clientOf(cloud));
    await sqs.send(new CreateQueueCommand({ QueueName: queue }));
    sqs.destroy();
    const ssm = new SSMClient(clientOf(cloud));
    await ssm.send(
      new PutParameterCommand({ Name: '/there', Type: 'SecureString', Value: 'secret' }),
    );
    ssm.destroy();
  });

  afterAll(async () => {
    await cloud?.stop();
    await rm(folder, { recursive: true });
  });

  beforeEach(() => {
    vi.stubEnv('AWS_ENDPOINT_URL_SSM', cloud.endpoint);
    return () => void vi.unstubAllEnvs();
  });

  function signAs({ accessKeyId, secretAccessKey }: AccessKey): void {
    vi.stubEnv('AWS_ACCESS_KEY_ID', accessKeyId);
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', secretAccessKey);
  }

  interface Told {
    readonly stage?: string;
    readonly region?: string;
    readonly account?: string;
    readonly endpoint?: string;
    readonly key?: AccessKey;
  }

  /** What the relay and the sweep do with a hint, and what their logs say where it fails. */
  async function send({
    stage = 'prod',
    region = cloudRegion,
    account = cloudAccount,
    endpoint = cloud.endpoint,
    key = cloudAdministrator,
  }: Told): Promise<string> {
    signAs(key);
    const queues = openQueues({
      MILLRACE_CLUSTER_ID: 'one',
      MILLRACE_STAGE: stage,
      MILLRACE_NAMESPACES: [],
      MILLRACE_QUEUE_URL_PREFIX: `${endpoint}/${account}/`,
      AWS_REGION: region,
    });
    onTestFinished(() => queues.close());
    const entries = [{ id: '0', body: 'a hint', group: 'a' }];
    const { acknowledged } = await queues.send(`millrace-${stage}-drain-step`, entries);
    return `sent ${acknowledged.length}`;
  }

  test('and what is right is sent', async () => {
    expect(await send({})).toBe('sent 1');
  });

  test('a queue that is missing: the stage, and where queues are', async () => {
    await expect(send({ stage: 'test' })).rejects.toThrow(
      /^there is no queue millrace-test-drain-step: check MILLRACE_STAGE, and account and region in MILLRACE_QUEUE_URL_PREFIX \(http.*\/000000000000\/\) \(the queue answered 400: QueueDoesNotExist/,
    );
  });

  test('a queue of another account: where queues are', async () => {
    await expect(send({ account: '111122223333' })).rejects.toThrow(
      /MILLRACE_QUEUE_URL_PREFIX \(http.*\/111122223333\/\)/,
    );
  });

  test('a queue of another region: where queues are', async () => {
    await expect(send({ region: 'us-east-1' })).rejects.toThrow(
      /region in MILLRACE_QUEUE_URL_PREFIX|AWS_REGION is us-east-1/,
    );
  });

  test('somebody whom the queue does not name: the parameter that names senders', async () => {
    await expect(send({ key: stranger })).rejects.toThrow(
      /^not allowed to send to millrace-prod-drain-step: name this sender in queue-senders/,
    );
  });

  test('a wrong secret key', async () => {
    const key = { ...stranger, secretAccessKey: 'wrong' };

    await expect(send({ key })).rejects.toThrow(
      /^the signature is not taken: AWS_REGION is eu-central-1/,
    );
  });

  test('a key that AWS does not know', async () => {
    const key = { accessKeyId: 'AKIANOBODY', secretAccessKey: 'wrong' };

    await expect(send({ key })).rejects.toThrow(/^AWS does not know the credentials/);
  });

  test('a server that is not there', async () => {
    const endpoint = `http://127.0.0.1:${await findFreePort()}`;

    await expect(send({ endpoint })).rejects.toThrow(
      /^nothing answers for the queues at 127\.0\.0\.1:\d+: check MILLRACE_QUEUE_URL_PREFIX/,
    );
  });

  test('a name that does not resolve', async () => {
    await expect(send({ endpoint: 'http://sqs.invalid' })).rejects.toThrow(
      /^the name sqs\.invalid does not resolve: check MILLRACE_QUEUE_URL_PREFIX/,
    );
  });

  test('a token that was put nowhere: the parameter and the region', async () => {
    signAs(reader);

    await expect(tokenFromParameter('/nowhere', cloudRegion)()).rejects.toThrow(
      /^there is no parameter \/nowhere in eu-central-1: put the token there/,
    );
    await expect(tokenFromParameter('/there', 'us-east-1')()).rejects.toThrow(
      /^there is no parameter \/there in us-east-1/,
    );
    expect(await tokenFromParameter('/there', cloudRegion)()).toBe('secret');
  });

  test('a token that is another function’s: whose right is missing', async () => {
    signAs(stranger);

    await expect(tokenFromParameter('/there', cloudRegion)()).rejects.toThrow(
      /^this function’s role may not read the parameter \/there/,
    );
  });

  test('Parameter Store without a way to it: what a VPC needs', async () => {
    signAs(reader);
    vi.stubEnv('AWS_ENDPOINT_URL_SSM', `http://127.0.0.1:${await findFreePort()}`);

    await expect(tokenFromParameter('/there', cloudRegion)()).rejects.toThrow(
      /^Parameter Store in eu-central-1 cannot be reached: from a VPC/,
    );
  });
});
