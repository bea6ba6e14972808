import { type Routing, routing, stepsOf } from '#events/routes.ts';

/** The steps that reconcile Shards. */
export const shardSteps = stepsOf('Shard');

/** What these steps listen to: Databases are only what Shards name then, and no targets. */
export const shardRouting: Routing = {
  ...routing,
  routes: routing.routes.filter(({ target }) => target === 'Shard'),
};
