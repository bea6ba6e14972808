import { describe, expect, test } from 'vitest';
import { type ReplayFlags, requestOf } from '#infra/cli/replay/request.ts';
import { placeQueues } from '#infra/cli/replay/queue-place.ts';
import type { Running } from '#infra/cli/dev/running.ts';
import { ConfigurationError } from '#shared/kernel/config.ts';
import { stepNames } from '#shared/api/steps.ts';
import { start } from '../../../events/replay/letter-world.ts';

function ask(flags: Partial<ReplayFlags>) {
  return requestOf({ output: 'table', ...flags }, start);
}

describe('what is asked for', () => {
  test('is the dead letters of every step, 50 a second, unless something else is said', () => {
    expect(ask({ dlq: true })).toEqual({
      source: { kind: 'letters' },
      steps: stepNames,
      selection: { targets: [], namespaces: [], steps: stepNames, reasons: [] },
      rate: 50,
      isDryRun: false,
      isAgreed: false,
      isDiscarding: false,
    });
  });

  test('is an archive, or beside letters what an archive says of them', () => {
    expect(ask({ archive: 's3://a' }).source).toEqual({
      kind: 'archive',
      archive: 's3://a',
      isEvery: false,
    });
    expect(ask({ dlq: ['pool-pods'], archive: 's3://a' }).source).toEqual({
      kind: 'letters',
      archive: 's3://a',
    });
    expect(ask({ file: '-', archive: 's3://a' }).source).toEqual({
      kind: 'file',
      path: '-',
      archive: 's3://a',
    });
  });

  test.each([
    ['nothing', {}, /say what to replay: --dlq .*--archive .*--file/],
    ['two sources', { dlq: true, file: 'a' }, /either --dlq or --file/],
    ['a step that is none', { dlq: ['no-step'] }, /no step "no-step"; there are: drain-step, /],
    [
      'a target without a namespace',
      { dlq: true, target: ['shd/orders-0'] },
      /^say in which namespace shd.orders-0 is: -n <namespace>, or shd.<namespace>.orders-0$/,
    ],
    ['a time that is none', { dlq: true, since: 'soon' }, /--since "soon" is no time/],
    [
      'more than SQS moves',
      { dlq: true, rate: '501' },
      /more than 500 a second.*StartMessageMoveTask/,
    ],
    ['a rate that is none', { dlq: true, rate: '0' }, /--rate "0" is no whole number/],
    ['a limit that is none', { dlq: true, limit: 'x' }, /--limit "x" is no whole number/],
    ['every hint of letters', { dlq: true, every: true }, /--every is about --archive/],
    [
      'to discard a part',
      { dlq: true, discardInvalid: true, target: ['shd/db/a'] },
      /whole dead-letter queues/,
    ],
    ['to discard of a file', { file: 'a', discardInvalid: true }, /whole dead-letter queues/],
  ] satisfies readonly (readonly [string, Partial<ReplayFlags>, RegExp])[])(
    'cannot be %s',
    (_, flags, says) => {
      expect(() => ask(flags)).toThrow(says);
    },
  );
});

const running: Running = {
  v: 1,
  pid: 1,
  since: '2026-01-01T00:00:00Z',
  cluster: 'c',
  stage: 'blue',
  region: 'us-east-1',
  queue: 'http://127.0.0.1:4566',
  relay: 'http://127.0.0.1:1',
  worker: 'http://127.0.0.1:2',
};

const prefix = 'https://sqs.eu-west-1.amazonaws.com/123456789012/';

describe('where the queues are', () => {
  test('says the `millrace dev` that runs, where nothing else does', () => {
    expect(placeQueues({}, {}, running)).toEqual({
      stage: 'blue',
      region: 'us-east-1',
      urlPrefix: 'http://127.0.0.1:4566/000000000000/',
      endpoint: 'http://127.0.0.1:4566',
      credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
    });
  });

  test('says an option before a variable before what runs, and the region is read off the URL', () => {
    const environment = { MILLRACE_QUEUE_URL_PREFIX: prefix, MILLRACE_STAGE: 'prod' };

    expect(placeQueues({}, environment, running)).toEqual({
      stage: 'prod',
      region: 'eu-west-1',
      urlPrefix: prefix,
      endpoint: 'https://sqs.eu-west-1.amazonaws.com',
    });
  });

  test('says a stage as the stack may have it', () => {
    expect(
      placeQueues({ stage: 'Prod_EU' }, { MILLRACE_QUEUE_URL_PREFIX: prefix }, undefined).stage,
    ).toBe('Prod_EU');
  });

  test.each([
    ['the stage is none', { stage: 'a/b' }, {}, /--stage: must be at most 40 letters/],
    ['nothing says it', {}, {}, /run `millrace dev` for this cluster, or give --queue-url-prefix/],
    [
      'the region is another one',
      { queueUrlPrefix: prefix },
      { AWS_REGION: 'us-east-1' },
      /AWS_REGION: is not the region in/,
    ],
    [
      'the option is another one',
      { queueUrlPrefix: prefix, region: 'us-east-1' },
      {},
      /--region: is not the region in/,
    ],
    ['no region is known', { queueEndpoint: 'http://127.0.0.1:1' }, {}, /--region: is missing/],
  ])('is an error where %s', (_, flags, environment, says) => {
    expect(() => placeQueues(flags, environment, undefined)).toThrow(ConfigurationError);
    expect(() => placeQueues(flags, environment, undefined)).toThrow(says);
  });
});
