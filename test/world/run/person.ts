import { pathOf } from '#shared/kube/http-kube.ts';
import type { ObjectRef } from '#shared/kube/resources.ts';
import type { World } from './world.ts';

/** A person merges this into an object. */
export function edit(world: World, ref: ObjectRef, body: object): void {
  world.person({
    method: 'PATCH',
    path: pathOf(ref),
    contentType: 'application/merge-patch+json',
    body,
  });
}

/** A person deletes an object; its grace is kept where none is given. */
export function remove(world: World, ref: ObjectRef, graceSeconds?: number): void {
  world.person({
    method: 'DELETE',
    path: pathOf(ref),
    ...(graceSeconds === undefined ? {} : { body: { gracePeriodSeconds: graceSeconds } }),
  });
}
