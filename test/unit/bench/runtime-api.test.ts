import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { RuntimeApi } from '#test/bench/cold-start/runtime-api.ts';

let api: RuntimeApi;

beforeEach(async () => {
  api = await RuntimeApi.start();
});

afterEach(() => api[Symbol.asyncDispose]());

function ask(path: string, init: RequestInit = {}): Promise<Response> {
  return fetch(`http://${api.address}/2018-06-01/runtime/${path}`, init);
}

describe('the server that a runtime client polls', () => {
  it('gives out an event when it is polled, and takes its answer by the id that it gave', async () => {
    const invoked = api.invoke({ hint: 1 });
    const next = await ask('invocation/next');
    const id = next.headers.get('lambda-runtime-aws-request-id');

    const accepted = await ask(`invocation/${id}/response`, {
      method: 'POST',
      body: '{"ok":true}',
    });

    expect(await next.json()).toEqual({ hint: 1 });
    expect(accepted.status).toBe(202);
    const { answer, givenMs, answeredMs } = await invoked;
    expect(answer).toEqual({ ok: true });
    expect(answeredMs).toBeGreaterThanOrEqual(givenMs);
  });

  it('lets a function wait for its event', async () => {
    const next = ask('invocation/next');
    const polledMs = await api.polled();

    const invoked = api.invoke('late');
    const response = await next;
    await ask(`invocation/${response.headers.get('lambda-runtime-aws-request-id')}/response`, {
      method: 'POST',
      body: 'null',
    });

    expect((await invoked).givenMs).toBeGreaterThanOrEqual(polledMs);
  });

  it('rejects whoever waits where the function could not be loaded', async () => {
    const refused = expect(api.invoke({})).rejects.toThrow('no such module');

    await ask('init/error', { method: 'POST', body: '{"errorMessage":"no such module"}' });

    await refused;
    await expect(api.polled()).rejects.toThrow('no such module');
  });

  it('rejects where the function answers with an error', async () => {
    const refused = expect(api.invoke({})).rejects.toThrow('it threw');
    const next = await ask('invocation/next');
    const id = next.headers.get('lambda-runtime-aws-request-id');

    await ask(`invocation/${id}/error`, { method: 'POST', body: '{"errorMessage":"it threw"}' });

    await refused;
  });
});
