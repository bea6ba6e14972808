import { backups } from './backups.ts';
import { cleanup } from './cleanup.ts';
import { deployed } from './deployed.ts';
import { coldStart } from './cold-start/cold-start.ts';
import { cost } from './cost.ts';
import { drains } from './drains.ts';
import { goverse } from './goverse.ts';
import { handover } from './handover.ts';
import { handlerStart } from './handler-start.ts';
import { page } from './page.ts';
import { type Part, scaled } from './part.ts';
import { relayLarge } from './relay-large.ts';
import { measureRelay } from './relay.ts';
import { sight } from './sight.ts';
import { replay } from './replay.ts';
import { stepLatency } from './step-latency.ts';
import { sweep } from './sweep.ts';
import { wakes } from './wakes.ts';

const relay: Part = {
  name: 'relay',
  title: 'the relay with 10,000 pods at 200 changes a second, beside a naive one',
  measure: (options) =>
    measureRelay({
      pods: scaled(10_000, options),
      changes: scaled(10_000, options),
      log: options.log,
    }),
};

/** Everything that is measured, in the order in which it runs: what needs a quiet machine least comes first. */
export const parts: readonly Part[] = [
  handlerStart,
  coldStart,
  page,
  relay,
  relayLarge,
  stepLatency,
  drains,
  cost,
  sweep,
  sight,
  wakes,
  replay,
  backups,
  cleanup,
  goverse,
  handover,
  deployed,
];
