import type { JsonObject } from '#shared/kube/json.ts';
import { objectAt, textAt } from '#test/world/model/json-data.ts';

/** A time that a client sends: of the year that the comparison leaves as it is. */
export const givenTime = '2001-02-03T04:05:06Z';

export const aPool: JsonObject = {
  name: 'main',
  cells: ['zone-a'],
  replicasPerCell: 3,
  storage: { size: '10Gi' },
  podTemplate: { spec: { containers: [{ name: 'pooler', image: 'pooler:1' }] } },
};

export function aShard(
  name: string,
  { metadata = {}, spec = {} }: { readonly metadata?: JsonObject; readonly spec?: JsonObject } = {},
): JsonObject {
  return {
    apiVersion: 'millrace.dev/v1alpha1',
    kind: 'Shard',
    metadata: { name, ...metadata },
    spec: { databaseRef: { name: 'main' }, pools: [aPool], ...spec },
  };
}

export function aDatabase(name: string, spec: JsonObject = {}): JsonObject {
  return {
    apiVersion: 'millrace.dev/v1alpha1',
    kind: 'Database',
    metadata: { name },
    spec: {
      name: 'postgres',
      dataPlane: {
        topology: { endpoints: ['http://topo:2379'] },
        admin: { url: 'http://multiadmin:18000' },
      },
      ...spec,
    },
  };
}

/** Without the volume of its account's token, whose name is chance. */
export function aPod(
  name: string,
  { metadata = {}, spec = {} }: { readonly metadata?: JsonObject; readonly spec?: JsonObject } = {},
): JsonObject {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, ...metadata },
    spec: {
      automountServiceAccountToken: false,
      containers: [{ name: 'pooler', image: 'pooler:1' }],
      ...spec,
    },
  };
}

export function mounting(claimName: string): JsonObject {
  return { volumes: [{ name: 'data', persistentVolumeClaim: { claimName } }] };
}

export function aClaim(name: string, metadata: JsonObject = {}): JsonObject {
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name, ...metadata },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
  };
}

export function aService(name: string, metadata: JsonObject = {}): JsonObject {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, ...metadata },
    spec: { clusterIP: 'None', publishNotReadyAddresses: true, selector: { of: name } },
  };
}

export function aBudget(name: string, metadata: JsonObject = {}): JsonObject {
  return {
    apiVersion: 'policy/v1',
    kind: 'PodDisruptionBudget',
    metadata: { name, ...metadata },
    spec: { minAvailable: 2, selector: { matchLabels: { of: name } } },
  };
}

export function aNode(name: string): JsonObject {
  return { apiVersion: 'v1', kind: 'Node', metadata: { name } };
}

export function aLease(name: string, spec: JsonObject = {}): JsonObject {
  return {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name },
    spec: {
      holderIdentity: 'one',
      leaseDurationSeconds: 15,
      acquireTime: '2001-02-03T04:05:06.000000Z',
      renewTime: '2001-02-03T04:05:06.000000Z',
      leaseTransitions: 0,
      ...spec,
    },
  };
}

export function anEvent(name: string, namespace: string): JsonObject {
  return {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name, namespace },
    involvedObject: { apiVersion: 'v1', kind: 'Pod', name: 'a', namespace, uid: 'a-uid' },
    type: 'Normal',
    reason: 'Drained',
    message: 'it left',
    action: 'Drained',
    reportingComponent: 'millrace.dev',
    reportingInstance: 'drain-step',
    source: { component: 'drain-step' },
    firstTimestamp: givenTime,
    lastTimestamp: givenTime,
    count: 1,
  };
}

/** @param target the object that owns */
export function ownedBy(target: JsonObject, more: JsonObject = {}): JsonObject {
  const { apiVersion = '', kind = '', metadata } = target;
  const { name = '', uid = '' } = (metadata ?? {}) as JsonObject;
  return { apiVersion, kind, name, uid, ...more };
}

export function aCondition(type: string, change: JsonObject = {}): JsonObject {
  return {
    type,
    status: 'True',
    reason: 'Seen',
    message: `${type} holds`,
    observedGeneration: 1,
    lastTransitionTime: givenTime,
    ...change,
  };
}

export function uidOf(object: JsonObject): string {
  return textAt(objectAt(object, 'metadata'), 'uid') ?? '';
}

export function versionOf(object: JsonObject): string {
  return textAt(objectAt(object, 'metadata'), 'resourceVersion') ?? '';
}

/** What names the object and this version of it. */
export function guardOf(object: JsonObject): { uid: string; resourceVersion: string } {
  return { uid: uidOf(object), resourceVersion: versionOf(object) };
}
