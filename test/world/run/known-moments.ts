import { Oracles } from '#test/world/oracles/oracles.ts';
import { type Fingerprint, ofMany, ofValue, textOf } from './fingerprint.ts';
import { ofWorld } from './world-fingerprint.ts';
import type { World } from './world.ts';

/** What an end is judged by, beside the state that it is reached from. */
export interface Course {
  /** Faults that struck; none is to strike any more. */
  readonly strikes: number;
  /** Whether creates and deletes are compared with the run without faults. */
  readonly isCompared: boolean;
}

interface Passed extends Course {
  readonly run: number;
  readonly deliveries: number;
  readonly writes: number;
}

/** Moments that are kept; then all are forgotten, which only costs time. */
const maxKept = 1_000_000;

/**
 * Quiet moments that runs of one workload came through. A run that comes to one of them again, with no fault left to
 * strike, goes on as the earlier one did and ends in the same way, so it need not be gone on with.
 */
export class KnownMoments {
  readonly #passed = new Map<string, Passed>();
  #run = 0;

  /** Tells runs apart: what a run came through itself says nothing of its end. */
  begin(): void {
    this.#run += 1;
  }

  /** Keeps the moment, and says whether an earlier run that was held to the same, or to more, came through it. */
  isKnown(world: World, stage: string, course: Course): boolean {
    if (world.companions.some(({ remembered }) => remembered === undefined)) {
      return false;
    }
    const key = textOf(ofMoment(world, stage));
    const found = this.#passed.get(key);
    if (
      found !== undefined &&
      found.run !== this.#run &&
      found.strikes <= course.strikes &&
      found.deliveries >= world.deliveries &&
      found.writes >= world.oursWritten &&
      (found.isCompared || !course.isCompared)
    ) {
      return true;
    }
    if (this.#passed.size >= maxKept) {
      this.#passed.clear();
    }
    this.#passed.set(key, {
      ...course,
      run: this.#run,
      deliveries: world.deliveries,
      writes: world.oursWritten,
    });
    return false;
  }
}

/** The whole world, what is still to come by plan, and everything that the verdict at the end is made of. */
export function ofMoment(world: World, stage: string): Fingerprint {
  const mixer = ofWorld(world).text(stage).number(world.activeAt);
  mixer.fingerprint(ofValue(world.circumstances)).fingerprint(ofValue(world.poison));
  for (const queue of world.queues.values()) {
    mixer.number(queue.deadLetters(world.now).length);
  }
  if (world.witness instanceof Oracles) {
    const { writes, remembered } = world.witness;
    const { desired, ...rest } = remembered;
    mixer.fingerprint(ofValue(rest)).fingerprint(ofMany([...desired].map(ofValue)));
    for (const [object, { creates, deletes }] of writes) {
      mixer.text(object).number(creates).number(deletes);
    }
  }
  return mixer.end();
}
