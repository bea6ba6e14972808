import { type Instant, toText } from '#shared/kernel/instant.ts';
import type { JsonObject, JsonValue } from '#shared/kube/json.ts';
import type { ResourceKind } from '#shared/kube/resources.ts';
import { type Cause, cause } from './api-answers.ts';
import { isList, isObject, isSame, listAt, objectAt, textAt, withFields } from './json-data.ts';
import { type MergeKeys, mergePatch } from './patches.ts';
import type { StoredObject } from './object-shelf.ts';

/** What the server does with one kind beyond what it does with all. */
export interface KindRules {
  /** Its status is written through a subresource of its own, and by nothing else. */
  readonly hasStatus?: true;
  /** Counts changes of its spec, from 1. */
  readonly hasGeneration?: true;
  /** An update may leave the version out. */
  readonly takesUnversioned?: true;
  /** An update may make the object. */
  readonly createsOnUpdate?: true;
  /** A deletion is answered with the object. */
  readonly returnsDeleted?: true;
  /** Stays for a time after its deletion was asked for. */
  readonly isGraceful?: true;
  /** A write to its status may change labels and annotations too. */
  readonly statusTakesMetadata?: true;
  /** Lists that a strategic merge patch merges; absent where the server takes no such patch. */
  readonly mergeKeys?: MergeKeys;
  /** What the server adds to a new object. */
  readonly complete?: (object: JsonObject) => JsonObject;
  /** How the server writes what it was given: times to the second, say. */
  readonly normalise?: (object: JsonObject) => JsonObject;
  /** Times in its spec that must have six digits behind the second. */
  readonly microTimes?: readonly string[];
  /** Fields that cannot be changed. */
  readonly checkUpdate?: (after: JsonObject, before: StoredObject) => readonly Cause[];
}

const metadataKeys: MergeKeys = { 'metadata.ownerReferences': 'uid' };

/** Conditions are told apart by their type, addresses of a pod by themselves. */
const podKeys: MergeKeys = {
  ...metadataKeys,
  'status.conditions': 'type',
  'status.podIPs': 'ip',
  'status.hostIPs': 'ip',
};

const conditionKeys: MergeKeys = { ...metadataKeys, 'status.conditions': 'type' };

export const kindRules: { readonly [K in ResourceKind]: KindRules } = {
  CustomResourceDefinition: { hasGeneration: true },
  Database: { hasStatus: true, hasGeneration: true },
  GoverseCluster: { hasStatus: true, hasGeneration: true },
  Event: {
    takesUnversioned: true,
    createsOnUpdate: true,
    mergeKeys: metadataKeys,
    complete: (event) => ({ eventTime: null, ...event }),
    normalise: (event) =>
      withFields(event, {
        firstTimestamp: toSecond(event['firstTimestamp']),
        lastTimestamp: toSecond(event['lastTimestamp']),
      }),
  },
  Job: { hasStatus: true, hasGeneration: true, mergeKeys: conditionKeys },
  Lease: {
    createsOnUpdate: true,
    mergeKeys: metadataKeys,
    // A null is as good as absent.
    normalise: (lease) => withFields(lease, { spec: mergePatch({}, objectAt(lease, 'spec')) }),
    microTimes: ['acquireTime', 'renewTime'],
  },
  Namespace: {
    hasStatus: true,
    takesUnversioned: true,
    mergeKeys: metadataKeys,
    complete: completeNamespace,
  },
  Node: {
    hasStatus: true,
    takesUnversioned: true,
    statusTakesMetadata: true,
    mergeKeys: { ...conditionKeys, 'status.addresses': 'type' },
    complete: completeNode,
    normalise: normaliseNode,
  },
  PersistentVolumeClaim: {
    hasStatus: true,
    takesUnversioned: true,
    returnsDeleted: true,
    statusTakesMetadata: true,
    mergeKeys: conditionKeys,
    complete: completeClaim,
    checkUpdate: checkClaim,
  },
  Pod: {
    hasStatus: true,
    hasGeneration: true,
    takesUnversioned: true,
    returnsDeleted: true,
    isGraceful: true,
    statusTakesMetadata: true,
    mergeKeys: podKeys,
    complete: completePod,
    normalise: normalisePod,
    checkUpdate: checkPod,
  },
  PodDisruptionBudget: {
    hasStatus: true,
    hasGeneration: true,
    mergeKeys: conditionKeys,
    complete: (budget) => ({
      ...budget,
      status: { disruptionsAllowed: 0, currentHealthy: 0, desiredHealthy: 0, expectedPods: 0 },
    }),
  },
  Secret: { takesUnversioned: true, mergeKeys: metadataKeys, complete: completeSecret },
  Service: {
    hasStatus: true,
    takesUnversioned: true,
    returnsDeleted: true,
    mergeKeys: conditionKeys,
    complete: completeService,
    checkUpdate: checkService,
  },
  Shard: { hasStatus: true, hasGeneration: true },
};

/** RFC 3339 to the second, as the server writes times. */
export function timeText(now: Instant): string {
  return toText((now - (now % 1000)) as Instant);
}

function toSecond(value: JsonValue | undefined): JsonValue {
  return typeof value === 'string' ? value.replace(/\.\d+Z$/, 'Z') : null;
}

function completeNamespace(namespace: JsonObject): JsonObject {
  const metadata = objectAt(namespace, 'metadata');
  return {
    ...namespace,
    metadata: {
      ...metadata,
      labels: {
        ...objectAt(metadata, 'labels'),
        'kubernetes.io/metadata.name': textAt(metadata, 'name') ?? '',
      },
    },
    spec: { finalizers: ['kubernetes'] },
    status: { phase: 'Active' },
  };
}

const noNodeInfo: JsonObject = {
  machineID: '',
  systemUUID: '',
  bootID: '',
  kernelVersion: '',
  osImage: '',
  containerRuntimeVersion: '',
  kubeletVersion: '',
  kubeProxyVersion: '',
  operatingSystem: '',
  architecture: '',
};

function completeNode(node: JsonObject): JsonObject {
  return {
    ...node,
    spec: {
      ...objectAt(node, 'spec'),
      taints: [{ key: 'node.kubernetes.io/not-ready', effect: 'NoSchedule' }],
    },
    status: {
      ...objectAt(node, 'status'),
      daemonEndpoints: { kubeletEndpoint: { Port: 0 } },
      nodeInfo: noNodeInfo,
    },
  };
}

function normaliseNode(node: JsonObject): JsonObject {
  return withConditions(node, (condition) => ({
    ...condition,
    lastHeartbeatTime: toSecond(condition['lastHeartbeatTime']),
    lastTransitionTime: toSecond(condition['lastTransitionTime']),
  }));
}

/** Set by the admission plugin StorageObjectInUseProtection, taken away by its controller. */
export const claimProtection = 'kubernetes.io/pvc-protection';

function completeClaim(claim: JsonObject): JsonObject {
  const metadata = objectAt(claim, 'metadata');
  const finalizers = listAt(metadata, 'finalizers');
  return {
    ...claim,
    metadata: {
      ...metadata,
      finalizers: finalizers.includes(claimProtection)
        ? finalizers
        : [...finalizers, claimProtection],
    },
    spec: { volumeMode: 'Filesystem', ...objectAt(claim, 'spec') },
    status: { phase: 'Pending' },
  };
}

function checkClaim(after: JsonObject, before: StoredObject): readonly Cause[] {
  const [old, wanted] = [objectAt(before, 'spec'), objectAt(after, 'spec')];
  const isBound = textAt(objectAt(before, 'status'), 'phase') === 'Bound';
  const resources = isBound ? { resources: old['resources'] } : {};
  return isSame(withFields(wanted, resources), old)
    ? []
    : [
        cause(
          'spec',
          'Forbidden',
          'Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims',
        ),
      ];
}

const podDefaults: JsonObject = {
  restartPolicy: 'Always',
  terminationGracePeriodSeconds: 30,
  dnsPolicy: 'ClusterFirst',
  serviceAccountName: 'default',
  serviceAccount: 'default',
  securityContext: {},
  schedulerName: 'default-scheduler',
  tolerations: ['not-ready', 'unreachable'].map((state) => ({
    key: `node.kubernetes.io/${state}`,
    operator: 'Exists',
    effect: 'NoExecute',
    tolerationSeconds: 300,
  })),
  priority: 0,
  enableServiceLinks: true,
  preemptionPolicy: 'PreemptLowerPriority',
};

function completePod(pod: JsonObject): JsonObject {
  const spec = objectAt(pod, 'spec');
  const containers = listAt(spec, 'containers').map(completeContainer);
  const hasResources = containers.some(
    ({ resources }) => isObject(resources) && Object.keys(resources).length > 0,
  );
  return {
    ...pod,
    spec: { ...podDefaults, ...spec, containers },
    status: { phase: 'Pending', qosClass: hasResources ? 'Burstable' : 'BestEffort' },
  };
}

function completeContainer(container: JsonValue): JsonObject {
  const fields = isObject(container) ? container : {};
  const [, tag = 'latest'] = /:([^:/]+)$/.exec(textAt(fields, 'image') ?? '') ?? [];
  return {
    resources: {},
    terminationMessagePath: '/dev/termination-log',
    terminationMessagePolicy: 'File',
    imagePullPolicy: tag === 'latest' ? 'Always' : 'IfNotPresent',
    ...fields,
  };
}

function normalisePod(pod: JsonObject): JsonObject {
  const dated = withConditions(pod, (condition) => ({
    ...condition,
    lastProbeTime: toSecond(condition['lastProbeTime']),
    lastTransitionTime: toSecond(condition['lastTransitionTime']),
  }));
  const status = objectAt(dated, 'status');
  const { startTime, containerStatuses } = status;
  return withFields(dated, {
    status: withFields(status, {
      ...(startTime === undefined ? {} : { startTime: toSecond(startTime) }),
      ...(isList(containerStatuses)
        ? {
            containerStatuses: sameOr(containerStatuses, containerStatuses.map(normaliseContainer)),
          }
        : {}),
    }),
  });
}

function normaliseContainer(status: JsonValue): JsonValue {
  if (!isObject(status)) {
    return status;
  }
  const state: JsonObject = Object.fromEntries(
    Object.entries(objectAt(status, 'state')).map(([name, fields]) => [
      name,
      isObject(fields) ? normaliseState(name, fields) : fields,
    ]),
  );
  return { lastState: {}, restartCount: 0, image: '', imageID: '', ready: false, ...status, state };
}

function normaliseState(name: string, fields: JsonObject): JsonObject {
  switch (name) {
    case 'running':
      return { ...fields, startedAt: toSecond(fields['startedAt']) };
    case 'terminated':
      return {
        ...fields,
        startedAt: toSecond(fields['startedAt']),
        finishedAt: toSecond(fields['finishedAt']),
      };
    default:
      return fields;
  }
}

function checkPod(after: JsonObject, before: StoredObject): readonly Cause[] {
  const [old, wanted] = [objectAt(before, 'spec'), objectAt(after, 'spec')].map(unchangeable);
  return isSame(old, wanted)
    ? []
    : [
        cause(
          'spec',
          'Forbidden',
          'Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)',
        ),
      ];
}

/** A pod's spec without what may be changed in it. */
function unchangeable(spec: JsonObject): JsonObject {
  const containers = listAt(spec, 'containers');
  return withFields(spec, {
    activeDeadlineSeconds: undefined,
    tolerations: undefined,
    schedulingGates: undefined,
    containers: containers.map((container) =>
      isObject(container) ? withFields(container, { image: undefined }) : container,
    ),
  });
}

function completeSecret(secret: JsonObject): JsonObject {
  const { stringData, ...rest } = secret;
  const given = isObject(stringData) ? stringData : {};
  const encoded = Object.entries(given).map(([key, value]) => [
    key,
    Buffer.from(typeof value === 'string' ? value : '', 'utf8').toString('base64'),
  ]);
  const data = { ...objectAt(secret, 'data'), ...Object.fromEntries(encoded) };
  return { type: 'Opaque', ...rest, ...(Object.keys(data).length > 0 ? { data } : {}) };
}

/** Only headless Services: nothing here hands out addresses. */
function completeService(service: JsonObject): JsonObject {
  const spec = objectAt(service, 'spec');
  if (spec['clusterIP'] !== 'None') {
    throw new Error('the model knows no Services but headless ones');
  }
  return {
    ...service,
    spec: {
      type: 'ClusterIP',
      sessionAffinity: 'None',
      ipFamilies: ['IPv4'],
      ipFamilyPolicy: 'SingleStack',
      internalTrafficPolicy: 'Cluster',
      clusterIPs: ['None'],
      ...spec,
    },
    status: { loadBalancer: {} },
  };
}

function checkService(after: JsonObject, before: StoredObject): readonly Cause[] {
  const address = objectAt(after, 'spec')['clusterIP'];
  return address === objectAt(before, 'spec')['clusterIP']
    ? []
    : [
        cause(
          'spec.clusterIPs[0]',
          'Invalid',
          `Invalid value: ${JSON.stringify([address])}: may not change once set`,
        ),
        cause('spec.ports', 'Required', 'Required value'),
      ];
}

/** The object with each condition changed; the same object where none of them does. */
function withConditions(
  object: JsonObject,
  change: (condition: JsonObject) => JsonObject,
): JsonObject {
  const status = objectAt(object, 'status');
  const conditions = listAt(status, 'conditions');
  const changed = sameOr(
    conditions,
    conditions.map((condition) => (isObject(condition) ? change(condition) : condition)),
  );
  return changed === conditions
    ? object
    : withFields(object, { status: withFields(status, { conditions: changed }) });
}

function sameOr(before: readonly JsonValue[], after: readonly JsonValue[]): readonly JsonValue[] {
  return isSame(before, after) ? before : Object.freeze(after);
}
