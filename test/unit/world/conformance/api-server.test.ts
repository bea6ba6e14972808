import { describe, expect, test } from 'vitest';
import { apiServerRows, namespaceOf } from '#test/world/conformance/api-server-rows.ts';
import { serveModel } from '#test/world/conformance/model-api.ts';
import { Script } from '#test/world/conformance/script.ts';

async function playOnModel(row: (typeof apiServerRows)[number]): Promise<Script> {
  const namespace = namespaceOf(row);
  const script = new Script(serveModel([namespace]), namespace);
  await row.play(script);
  return script;
}

describe('the rows in which the model of the API server is held to the real one', () => {
  test('are many, each with a name of its own', () => {
    const names = apiServerRows.map(({ name }) => name);

    expect(names.length).toBeGreaterThanOrEqual(140);
    expect(new Set(names).size).toBe(names.length);
  });

  test.each(apiServerRows)('$name', async (row) => {
    const first = await playOnModel(row);
    const second = await playOnModel(row);

    expect(first.said.length, 'something was asked').toBeGreaterThan(0);
    expect(second.said, 'the same is said every time').toEqual(first.said);
  });

  test('see every answer the code looks at: made, written, lost, refused, gone', async () => {
    const scripts = await Promise.all(apiServerRows.map(playOnModel));
    const statuses = new Set(scripts.flatMap(({ said }) => said.map(({ status }) => status)));

    const expected = [200, 201, 400, 403, 404, 405, 409, 410, 415, 422, 500];
    expect(expected.filter((status) => !statuses.has(status))).toEqual([]);
  });

  test('differ where servers differ, and not by uids, versions and times', async () => {
    const row = { name: '', play: (script: Script) => script.list('Namespace') };
    const one = serveModel(['one']);
    const other = serveModel(['one']);
    const third = serveModel(['one', 'two']);
    await other.connection.request({ method: 'DELETE', path: '/api/v1/namespaces/none' });

    const [said, alike, different] = await Promise.all(
      [one, other, third].map(async (server) => {
        const script = new Script(server, 'one');
        await row.play(script);
        return script.said;
      }),
    );

    expect(alike).toEqual(said);
    expect(different).not.toEqual(said);
  });
});
