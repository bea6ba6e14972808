import { expect, test } from 'vitest';
import { routing, watchedKinds } from '#events/routes.ts';
import { stepNames } from '#shared/api/steps.ts';

test('every step has exactly one route', () => {
  const routed = routing.routes.map((route) => route.step);

  expect(routed.toSorted()).toEqual(stepNames.toSorted());
});

test('shards, their pods and their databases are watched, each once', () => {
  expect(watchedKinds(routing).toSorted()).toEqual(['Database', 'Pod', 'Shard']);
});
