import { describe, expect, test } from 'vitest';
import { type Instant, parseInstant } from '#shared/kernel/instant.ts';
import { type Gateway, etcdRows, tell } from '#test/world/conformance/etcd-rows.ts';
import { askGateway } from '#test/world/model/etcd-gateway.ts';
import { Etcd } from '#test/world/model/etcd.ts';

/** The model behind its gateway; a lease's end is waited for by letting the time pass. */
function openModel(): Gateway {
  const etcd = new Etcd();
  let now: Instant = parseInstant('2026-01-01T00:00:00Z') ?? expect.unreachable();
  return {
    async post(path, body) {
      const answer = askGateway(etcd, `/v3${path}`, JSON.parse(JSON.stringify(body)), now);
      return { status: answer.status, body: JSON.parse(JSON.stringify(answer.body)) };
    },
    async leaseDeletes(key) {
      now = etcd.nextExpiry() ?? expect.unreachable();
      etcd.expireLeases(now);
      expect(etcd.read(key)).toBeUndefined();
    },
  };
}

describe('the model of etcd answers as etcd 3.6 does', () => {
  test.each(etcdRows)('$name', async (row) => {
    const model = openModel();

    const answers = await tell(row, model);

    expect(answers).toEqual(row.answers);
  });
});
