import { hash } from 'node:crypto';
import type { Reference, Route, Routing } from '#events/routes.ts';
import { recordAnnotation } from '#shared/api/annotations.ts';
import type { StepName } from '#shared/api/steps.ts';
import type { ResourceKind } from '#shared/kube/resources.ts';
import type { WatchedObject } from './watched-object.ts';

/** Who has to be told when a part of an object changes. */
export type Audience =
  /** One step, about the object itself. */
  | { readonly to: 'itself'; readonly step: StepName }
  /** The target that the object belongs to: the steps that care about members. */
  | { readonly to: 'owner'; readonly kind: ResourceKind; readonly name: string }
  /** Every target of a kind that names the object in its spec: all steps. */
  | { readonly to: 'referrers'; readonly kind: ResourceKind };

/** What one audience cares about in an object, as one small string that changes exactly when that does. */
export interface Concern {
  readonly audience: Audience;
  readonly digest: string;
}

/** Of a digest: 128 bits, so two different inputs never meet by chance. */
const digestBytes = 16;

/**
 * Everything in an object that anybody has to be woken for. An object of a kind that the routing does not name, or a
 * member without its label, concerns nobody.
 */
export function concernsOf(routing: Routing, kind: ResourceKind, object: WatchedObject): Concern[] {
  const { resourceVersion, labels = {} } = object.metadata;
  const concerns: Concern[] = [];
  for (const route of routing.routes) {
    if (route.target === kind) {
      const audience: Audience = { to: 'itself', step: route.step };
      concerns.push({ audience, digest: targetDigest(route, object) });
    }
  }
  for (const membership of routing.memberships) {
    const name = labels[membership.label];
    if (membership.kind === kind && name !== undefined) {
      // A member's metadata does not show what its status says, so every write to it counts.
      const audience: Audience = { to: 'owner', kind: membership.target, name };
      concerns.push({ audience, digest: resourceVersion });
    }
  }
  for (const reference of routing.references) {
    if (reference.kind === kind) {
      const audience: Audience = { to: 'referrers', kind: reference.target };
      concerns.push({ audience, digest: referenceDigest(reference, object) });
    }
  }
  // A list that grew has room for many more, and one of these is kept for each object.
  return concerns.slice();
}

/**
 * Of one of a step's targets: the spec's generation, its going, the records and conditions that the step reads, and
 * what people ask. Not in it: other status, other steps' records and conditions, labels, foreign annotations.
 */
function targetDigest(route: Route, object: WatchedObject): string {
  const { generation, deletionTimestamp, annotations = {} } = object.metadata;
  return digestOf([
    generation,
    deletionTimestamp,
    [route.step, ...route.records].map((step) => annotations[recordAnnotation(step)]),
    route.conditions.map((type) => conditionOf(object, type)),
    route.requests.map((key) => annotations[key]),
  ]);
}

/** Of an object that targets name: its spec's generation, its going, and what people ask. */
function referenceDigest(reference: Reference, object: WatchedObject): string {
  const { generation, deletionTimestamp, annotations = {} } = object.metadata;
  return digestOf([
    generation,
    deletionTimestamp,
    reference.requests.map((key) => annotations[key]),
  ]);
}

/** A condition without the instant of its last transition, which says nothing that its status does not. */
function conditionOf(object: WatchedObject, type: string): unknown {
  const condition = object.status?.conditions?.find((candidate) => candidate.type === type);
  if (condition === undefined) {
    return null;
  }
  const { status, reason, message, observedGeneration } = condition;
  return [status, reason, message, observedGeneration];
}

/** One small string that changes exactly when these parts do. */
export function digestOf(parts: unknown): string {
  // JSON writes an absent part of a list as null, so the places never shift.
  // A hash that is as long as asked: a part of a longer one would keep all of it in memory.
  return hash('shake128', JSON.stringify(parts), {
    outputEncoding: 'base64url',
    outputLength: digestBytes,
  });
}
