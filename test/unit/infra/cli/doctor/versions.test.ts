import { describe, expect, test } from 'vitest';
import { identityOf, versionOfHolder } from '#events/relay/identity.ts';
import { judgeDifference } from '#infra/cli/doctor/definitions.ts';
import { judgeRelays } from '#infra/cli/doctor/versions.ts';

const old = { pod: 'millrace-relay-a', version: '0.1.0' };
const next = { pod: 'millrace-relay-b', version: '0.2.0' };
const holder = (relay: typeof old) => identityOf(relay.pod, relay.version, 'some-uuid');

describe('the relays of a cluster', () => {
  test('are in order where all are of the release that asks', () => {
    const check = judgeRelays([old, { ...old, pod: 'c' }], [holder(old)], '0.1.0');

    expect(check).toMatchObject({
      result: 'ok',
      found: '2 of 0.1.0, millrace-relay-a leads with 0.1.0',
    });
  });

  test('of two releases are named, and so is who leads with which', () => {
    const check = judgeRelays([old, next], [holder(next)], '0.2.0');

    expect(check).toMatchObject({
      result: 'failed',
      found: '2 of 0.1.0 and 0.2.0, millrace-relay-b leads with 0.2.0',
      advice: expect.stringContaining('rollout'),
    });
  });

  test('that are older want the manifests of the release that asks', () => {
    const check = judgeRelays([old], [holder(old)], '0.2.0');

    expect(check.advice).toContain('apply the manifests of 0.2.0');
  });

  test('that are newer want the command of their own release', () => {
    const check = judgeRelays([next], [holder(next)], '0.1.0');

    expect(check.advice).toContain('ask the one of 0.2.0');
  });

  test('are judged by what leads where the labels of their pods hide it', () => {
    const check = judgeRelays([old], [identityOf('millrace-relay-a', '0.2.0', 'u')], '0.1.0');

    expect(check).toMatchObject({ result: 'failed' });
  });

  test('are not judged where there are none', () => {
    expect(judgeRelays([], [], '0.1.0').result).toBe('skipped');
  });
});

describe('the holder of a Lease', () => {
  test('says its release', () => {
    expect(versionOfHolder(identityOf('a_host', '0.1.0', '2f6f1f0f'))).toBe('0.1.0');
  });

  test('of before that says none', () => {
    expect(versionOfHolder('host_2f6f1f0f')).toBeUndefined();
  });
});

describe('definitions of another release', () => {
  test('that are older want the manifests of the release that asks', () => {
    const check = judgeDifference('definition x', '0.0.9', 'spec', '0.1.0');

    expect(check.found).toBe('it is of 0.0.9, and this is 0.1.0 (spec differs)');
    expect(check.advice).toContain('millrace manifests');
  });

  test('that are newer want functions and relay to follow them', () => {
    const check = judgeDifference('definition x', '0.2.0', 'spec', '0.1.0');

    expect(check.advice).toContain('functions and relay of 0.2.0');
  });
});
