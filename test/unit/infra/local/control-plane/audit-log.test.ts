import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { readAuditLog } from '#infra/local/control-plane/audit-log.ts';

let path: string;

beforeEach(async () => {
  path = join(await mkdtemp(join(tmpdir(), 'millrace-audit-test-')), 'audit.log');
});

afterEach(async () => {
  await rm(join(path, '..'), { recursive: true, force: true });
});

/** A line as the API server writes it, for a look at one pod unless told otherwise. */
function aLine(id: string, more: object = {}): string {
  return `${JSON.stringify({
    kind: 'Event',
    level: 'Metadata',
    auditID: id,
    stage: 'ResponseComplete',
    requestURI: '/api/v1/namespaces/db/pods/a',
    verb: 'get',
    user: { username: 'relay', groups: ['system:authenticated'] },
    userAgent: 'millrace/relay (0.1.0)',
    objectRef: { resource: 'pods', namespace: 'db', name: 'a', apiVersion: 'v1' },
    responseStatus: { metadata: {}, code: 200 },
    requestReceivedTimestamp: '2026-01-01T00:00:00.000000Z',
    ...more,
  })}\n`;
}

describe('the audit log', () => {
  test('tells who asked for what and how it ended', async () => {
    await writeFile(path, aLine('1'));

    const requests = await readAuditLog(path);

    expect(requests).toEqual([
      {
        user: 'relay',
        userAgent: 'millrace/relay',
        agentVersion: '0.1.0',
        verb: 'get',
        path: '/api/v1/namespaces/db/pods/a',
        resource: 'pods',
        namespace: 'db',
        name: 'a',
        status: 200,
        receivedAt: '2026-01-01T00:00:00.000000Z',
      },
    ]);
  });

  test('joins a subresource to its resource and leaves out what a plain path does not have', async () => {
    const eviction = { resource: 'pods', subresource: 'eviction', namespace: 'db', name: 'a' };
    await writeFile(
      path,
      aLine('1', { objectRef: eviction }) +
        aLine('2', { requestURI: '/readyz', objectRef: undefined, userAgent: undefined }),
    );

    const [first, second] = await readAuditLog(path);

    expect(first?.resource).toBe('pods/eviction');
    expect(second).not.toHaveProperty('resource');
    expect(second?.userAgent).toBe('');
  });

  test('counts a watch that opened and closed once', async () => {
    const watch = { verb: 'watch', responseStatus: undefined };
    await writeFile(
      path,
      aLine('1', { ...watch, stage: 'ResponseStarted' }) + aLine('2') + aLine('1', watch),
    );

    const requests = await readAuditLog(path);

    expect(requests.map(({ verb }) => verb)).toEqual(['watch', 'get']);
  });

  test('leaves a line alone that is just being written', async () => {
    await writeFile(path, aLine('1') + aLine('2').slice(0, 40));

    const requests = await readAuditLog(path);

    expect(requests).toHaveLength(1);
  });
});
