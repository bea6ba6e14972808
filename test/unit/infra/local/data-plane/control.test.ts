import { once } from 'node:events';
import type http from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type DataPlaneControl, connectControl } from '#infra/local/data-plane/control-client.ts';
import { createControlServer } from '#infra/local/data-plane/control-server.ts';
import { Engine } from '#infra/local/data-plane/engine.ts';
import { type DataPlaneState, createState } from '#infra/local/data-plane/state.ts';
import { aConfig } from './simulated-cluster.ts';

let engine: Engine;
let server: http.Server;
let control: DataPlaneControl;
let kept: DataPlaneState | undefined;

beforeEach(async () => {
  const state = createState(
    { ...aConfig, speed: 1_000 },
    { nowMs: Date.now(), seed: 1, cells: ['zone-a'] },
  );
  engine = new Engine(state, (next) => {
    kept = next;
  });
  engine.run(() => {});
  server = createControlServer(engine);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  control = connectControl(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});

afterEach(() => {
  engine.stop();
  server.closeAllConnections();
  server.close();
});

function startPod(): void {
  const pod = {
    uid: 'a-uid',
    namespace: 'db',
    name: 'orders-0',
    cell: 'zone-a',
    poolerName: 'orders-0',
    hostname: 'orders-0',
    volume: 'a-claim',
  };
  engine.take({ kind: 'podAssigned', pod });
}

describe('the control interface', () => {
  test('shows a pod from its start on, as time passes', async () => {
    startPod();

    const running = async () => (await control.state()).members.map(({ process }) => process);

    await expect.poll(running).toEqual(['running']);
  });

  test('injects, lists and lifts faults, which are kept with the state', async () => {
    await control.inject({ kind: 'adminSlow', delayMs: 50 });
    await control.inject({ kind: 'poolerUnreachable', pod: 'orders-0' });
    const injected = await control.faults();
    const keptFaults = kept?.faults;
    await control.lift({ kind: 'poolerUnreachable', pod: 'orders-0' });
    const lifted = await control.faults();
    await control.lift();

    expect(injected).toEqual([
      { kind: 'adminSlow', delayMs: 50 },
      { kind: 'poolerUnreachable', pod: 'orders-0' },
    ]);
    expect(keptFaults).toEqual(injected);
    expect(lifted).toEqual([{ kind: 'adminSlow', delayMs: 50 }]);
    expect(await control.faults()).toEqual([]);
  });

  test('kills a pod once, and refuses where it does not run', async () => {
    startPod();
    const death = { kind: 'podDeath', pod: 'orders-0', leaves: 'failed' } as const;
    await expect.poll(async () => (await control.state()).members[0]?.process).toBe('running');

    await control.inject(death);
    const again = control.inject(death);

    await expect(again).rejects.toThrow('no pod orders-0 runs here');
    expect((await control.state()).members[0]?.process).toBe('died');
  });

  test('explains what is wrong with a fault it does not know', async () => {
    const { port } = server.address() as AddressInfo;

    const answer = await fetch(`http://127.0.0.1:${port}/faults`, {
      method: 'POST',
      body: '{"kind":"adminSlow","delayMs":-1}',
    });

    expect(answer.status).toBe(400);
    expect(await answer.json()).toEqual({ error: expect.stringContaining('delayMs') });
  });

  test('knows no other path', async () => {
    const { port } = server.address() as AddressInfo;

    const answer = await fetch(`http://127.0.0.1:${port}/else`);

    expect(answer.status).toBe(404);
  });
});
