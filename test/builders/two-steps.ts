import { type Routing, routing, stepsOf } from '#events/routes.ts';
import type { StepName } from '#shared/api/steps.ts';

/** Whom a change of a Shard concerns. */
export const shardSteps = stepsOf('Shard');

/**
 * Two steps that differ in everything a route can say, so that what the relay does for each can be told apart; the ones
 * that run in the world where nobody schedules backups, since backup-trigger would have nothing to do there.
 */
export const twoSteps: readonly StepName[] = ['drain-step', 'pool-pods'];

/** What belongs to Shards. Other kinds' members would be watched besides. */
const memberships = routing.memberships.filter(({ target }) => target === 'Shard');

/** The routes of these two, as they are. */
export const twoRoutes: Routing = {
  ...routing,
  memberships,
  routes: routing.routes.filter(({ step }) => twoSteps.includes(step)),
};

/** Besides these two the step that reconciles Databases, which are named by Shards as well. */
export const threeRoutes: Routing = {
  ...routing,
  memberships,
  routes: routing.routes.filter(({ step }) => twoSteps.includes(step) || step === 'backup-config'),
};
