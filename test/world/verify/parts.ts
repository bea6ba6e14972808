import { explorePart } from './explore.ts';
import type { Part } from './part.ts';
import { plansPart } from './plans.ts';
import { relayPart } from './relay.ts';
import { swarmPart } from './swarm.ts';

/** Every part, in the order they run. */
export const parts: readonly Part[] = [plansPart, relayPart, explorePart, swarmPart];
