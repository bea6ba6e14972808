import { routing, targetKinds } from '#events/routes.ts';
import {
  drainMirror,
  drainRequest,
  goverseAddress,
  recordAnnotations,
  recordPrefix,
  releaseMirror,
  releasedClaim,
  shutdownMode,
} from '#shared/api/annotations.ts';
import { goverseLabel, shardLabel } from '#shared/api/labels.ts';
import { type StepName, stepNames } from '#shared/api/steps.ts';
import type { EffectKind } from '#shared/kernel/effect.ts';
import { type ResourceKind, apiVersionOf, resourceTypes } from '#shared/kube/resources.ts';
import { and, list, map, on, or, text, unchanged } from './cel.ts';
import { declarations } from './declarations.ts';
import { type Manifest, partOf } from './manifest.ts';
import { type Grants, usersOf } from './rbac.ts';

/** By which names of users the API server knows a step. Several steps may share one. */
type NamesOf = (step: StepName) => readonly string[];

interface Policy {
  readonly name: string;
  readonly rules: readonly Rule[];
  /** Whom it is about: Millrace itself, or everybody else. */
  readonly about: 'millrace' | 'others';
  readonly variables?: readonly Named[];
  readonly validations: readonly { readonly expression: string; readonly message: string }[];
}

interface Named {
  readonly name: string;
  readonly expression: string;
}

type Operation = 'CREATE' | 'UPDATE' | 'DELETE' | 'CONNECT';

interface Rule {
  readonly apiGroups: readonly string[];
  readonly apiVersions: readonly string[];
  readonly resources: readonly string[];
  readonly operations: readonly Operation[];
}

/**
 * Both ways: records and mirrors are written by Millrace alone, and Millrace writes nothing but what its steps declare.
 *
 * Whom that means stands in the policies themselves and in no parameter object: one that is missing, or not seen yet, would
 * either let everybody write records or hold up every change of every member's pod, the kubelet's too.
 */
export function admissionPolicies(grants: Grants): readonly Manifest[] {
  const namesOf: NamesOf = (step) => usersOf(step, grants);
  return [records, targets, statuses, pods, podSubresources, claims, jobs, owned, events].flatMap(
    (policy) => manifestsOf(policy, namesOf),
  );
}

/** `{}` where there is no object, or where it has none. */
const annotationVariables: readonly Named[] = ['object', 'oldObject'].map((object) => ({
  name: object === 'object' ? 'after' : 'before',
  expression: `${object} == null ? {} : ${object}.?metadata.?annotations.orValue({})`,
}));

/** Compared by name: it costs the same however many annotations an object has. */
function sameAnnotations(keys: readonly string[]): string {
  return `${list(keys)}.all(key, variables.before[?key] == variables.after[?key])`;
}

/**
 * Everything but those keys, one expression for each direction: they take as long as the object has annotations, and
 * each expression has a budget of its own.
 */
function otherAnnotationsSame(keys: string): readonly string[] {
  const oneWay = (from: string, to: string): string =>
    `variables.${from}.all(key, key in ${keys} || (key in variables.${to} && variables.${to}[key] == variables.${from}[key]))`;
  return [oneWay('before', 'after'), oneWay('after', 'before')];
}

const records: Policy = {
  name: 'millrace-records',
  about: 'others',
  rules: [
    ruleOn(targetKinds(routing), ['UPDATE']),
    // A pod's annotations can be changed by way of its status, and by whoever binds it to a node.
    {
      ...ruleOn(['Pod'], ['UPDATE']),
      resources: ['pods', 'pods/ephemeralcontainers', 'pods/resize', 'pods/status'],
    },
    { ...ruleOn(['Pod'], ['CREATE']), resources: ['pods/binding'] },
  ],
  variables: annotationVariables,
  validations: [
    {
      expression: sameAnnotations([...recordAnnotations, drainMirror, releaseMirror]),
      message: `annotations ${recordPrefix}*, ${drainMirror} and ${releaseMirror} are written by Millrace alone; a record is cleared by millrace reset`,
    },
  ],
};

const ownRecords = `variables.steps.map(step, ${text(recordPrefix)} + step)`;

const sameIdentity = and(
  ...['labels', 'finalizers', 'ownerReferences'].map((field) => unchanged(`metadata.${field}`)),
);

const targets: Policy = {
  name: 'millrace-targets',
  about: 'millrace',
  rules: [ruleOn(targetKinds(routing), ['CREATE', 'UPDATE', 'DELETE'])],
  variables: annotationVariables,
  validations: [
    {
      expression: `request.operation == 'UPDATE'`,
      message: 'no step makes or deletes what it reconciles',
    },
    {
      expression: on('UPDATE', and(unchanged('spec'), sameIdentity)),
      message: 'no step changes a spec, labels, finalizers or owners',
    },
    ...otherAnnotationsSame(ownRecords).map((expression) => ({
      expression: on('UPDATE', expression),
      message: 'a step writes its own record and no other annotation',
    })),
  ],
};

const statuses: Policy = {
  name: 'millrace-statuses',
  about: 'millrace',
  rules: [
    {
      ...ruleOn(targetKinds(routing), ['UPDATE']),
      resources: targetKinds(routing).map((kind) => `${resourceTypes[kind].plural}/status`),
    },
  ],
  variables: [
    {
      name: 'types',
      expression: map(routing.routes.map(({ step, ownConditions }) => [step, list(ownConditions)])),
    },
    ...['object', 'oldObject'].map((object) => ({
      name: object === 'object' ? 'after' : 'before',
      expression: `${object}.?status.?conditions.orValue([]).filter(condition, !variables.steps.exists(step, condition.type in variables.types[step]))`,
    })),
  ],
  validations: [
    {
      expression:
        'variables.before.all(one, one in variables.after) && variables.after.all(one, one in variables.before)',
      message: 'a step writes its own conditions and no others',
    },
  ],
};

const deletedByUid =
  'request.options.?preconditions.?uid.orValue(dyn("")) == oldObject.metadata.uid';

/** The API server itself takes the grace away from a pod that runs nowhere, before it asks whether that is admitted. */
const deletedGracefully = or(
  'request.options.?gracePeriodSeconds.orValue(dyn(1)) != 0',
  `oldObject.spec.?nodeName.orValue('') == ''`,
  `oldObject.?status.?phase.orValue('') in ['Failed', 'Succeeded']`,
  'oldObject.spec.?terminationGracePeriodSeconds.orValue(30) == 0',
);

const pods: Policy = {
  name: 'millrace-pods',
  about: 'millrace',
  rules: [ruleOn(['Pod'], ['CREATE', 'UPDATE', 'DELETE'])],
  variables: [
    ...annotationVariables,
    {
      name: 'isRelabelled',
      expression: and(
        isOneOf(wholePatchersOf('Pod')),
        controlledByShard('oldObject'),
        // Neither mirrors nor what people ask for.
        sameAnnotations([drainMirror, releaseMirror, drainRequest, shutdownMode, goverseAddress]),
      ),
    },
  ],
  validations: [
    {
      expression: on('CREATE', and(isOneOf(makersOf('Pod')), controlledByShard('object'))),
      message: 'a step makes pods of a Shard and no others',
    },
    {
      expression: on(
        'UPDATE',
        and(
          unchanged('spec'),
          unchanged('metadata.finalizers'),
          unchanged('metadata.ownerReferences'),
        ),
      ),
      message: 'no step changes the spec, finalizers or owners of a pod',
    },
    ...[...annotatesOnly('Pod'), hasLabel('oldObject', [shardLabel, goverseLabel])].map(
      (expression) => ({
        expression: on('UPDATE', or('variables.isRelabelled', expression)),
        message: 'a step writes its own mirror on a member, and who makes members their labels',
      }),
    ),
    {
      expression: on(
        'DELETE',
        and(
          isOneOf(deletersOf('Pod')),
          `variables.before[?${text(drainMirror)}].orValue('') == 'finished'`,
          deletedByUid,
          deletedGracefully,
        ),
      ),
      message: 'a step deletes a pod by its uid, gracefully, once its drain is finished',
    },
  ],
};

/** Evicting a pod would be a delete that nobody asks about, and its status and binding are ways to its annotations. */
const podSubresources: Policy = {
  name: 'millrace-pod-subresources',
  about: 'millrace',
  rules: [{ ...ruleOn(['Pod'], ['CREATE', 'UPDATE', 'CONNECT']), resources: ['pods/*'] }],
  validations: [
    {
      // The pod itself is among what the rule matches.
      expression: `request.?subResource.orValue('') == ''`,
      message: 'no step uses a subresource of a pod',
    },
  ],
};

const claims: Policy = {
  name: 'millrace-claims',
  about: 'millrace',
  rules: [ruleOn(['PersistentVolumeClaim'], ['CREATE', 'UPDATE', 'DELETE'])],
  variables: annotationVariables,
  validations: [
    {
      expression: on(
        'CREATE',
        and(isOneOf(makersOf('PersistentVolumeClaim')), hasLabel('object', [shardLabel])),
      ),
      message: 'a step makes claims of a Shard and no others',
    },
    ...[unchanged('spec'), sameIdentity, ...annotatesOnly('PersistentVolumeClaim')].map(
      (expression) => ({
        expression: on('UPDATE', expression),
        message: `a step writes ${releasedClaim} on a claim and nothing else`,
      }),
    ),
    {
      expression: on(
        'DELETE',
        and(
          isOneOf(deletersOf('PersistentVolumeClaim')),
          hasLabel('oldObject', [shardLabel]),
          deletedByUid,
        ),
      ),
      message: 'a step deletes claims of a Shard, by their uid, and no others',
    },
  ],
};

const jobs: Policy = {
  name: 'millrace-jobs',
  about: 'millrace',
  rules: [ruleOn(['Job'], ['CREATE', 'UPDATE', 'DELETE'])],
  validations: [
    {
      expression: on('CREATE', and(isOneOf(makersOf('Job')), controlledByShard('object'))),
      message: 'a step makes Jobs of a Shard and no others',
    },
    {
      expression: on(
        'UPDATE',
        and(
          isOneOf(wholePatchersOf('Job')),
          controlledByShard('oldObject'),
          sameIdentity,
          unchanged('metadata.annotations'),
          ...['template', 'parallelism', 'completions', 'suspend', 'activeDeadlineSeconds'].map(
            (field) => unchanged(`spec.${field}`),
          ),
        ),
      ),
      message: 'a step says how long a Job of a Shard is kept and changes nothing else',
    },
    { expression: `request.operation != 'DELETE'`, message: 'no step deletes a Job' },
  ],
};

const owned: Policy = {
  name: 'millrace-owned',
  about: 'millrace',
  rules: [
    ruleOn(['Service'], ['CREATE', 'UPDATE', 'DELETE']),
    ruleOn(['PodDisruptionBudget'], ['CREATE', 'UPDATE', 'DELETE']),
  ],
  validations: [
    {
      expression: on('CREATE', and(isOneOf(makersOf('Service')), controlledByShard('object'))),
      message: 'a step makes Services and budgets of a Shard and no others',
    },
    {
      expression: on(
        'UPDATE',
        and(isOneOf(wholePatchersOf('Service')), controlledByShard('oldObject'), sameIdentity),
      ),
      message: 'a step changes what a Service or budget of a Shard selects, and nothing else',
    },
    {
      expression: `request.operation != 'DELETE'`,
      message: 'no step deletes a Service or a budget',
    },
  ],
};

const events: Policy = {
  name: 'millrace-events',
  about: 'millrace',
  rules: [ruleOn(['Event'], ['CREATE', 'UPDATE', 'DELETE'])],
  validations: [
    {
      expression: and(
        `request.operation == 'CREATE'`,
        `object.involvedObject.?apiVersion.orValue('') == ${text(apiVersionOf('Shard'))}`,
      ),
      message: 'a step tells of what it reconciles and of nothing else',
    },
  ],
};

function makersOf(kind: ResourceKind): readonly StepName[] {
  return stepsWith(['createObject', 'startJob'], kind);
}

function deletersOf(kind: ResourceKind): readonly StepName[] {
  return stepsWith(['deleteObject'], kind);
}

/** Who may patch more of it than annotations. */
function wholePatchersOf(kind: ResourceKind): readonly StepName[] {
  return stepsWith(['patchObject'], kind).filter((step) => annotationsOf(step, kind) === undefined);
}

function stepsWith(effects: readonly EffectKind[], kind: ResourceKind): readonly StepName[] {
  return stepNames.filter((step) =>
    declarations[step].writes.some(
      (permission) => effects.includes(permission.effect) && permission.kind === kind,
    ),
  );
}

function annotationsOf(step: StepName, kind: ResourceKind): readonly string[] | undefined {
  return declarations[step].writes.find(
    (permission) => permission.effect === 'patchObject' && permission.kind === kind,
  )?.annotations;
}

/** Nothing differs but annotations that one of the writer's steps declares. */
function annotatesOnly(kind: ResourceKind): readonly string[] {
  const byKey = new Map<string, StepName[]>();
  for (const step of stepNames) {
    for (const key of annotationsOf(step, kind) ?? []) {
      byKey.set(key, [...(byKey.get(key) ?? []), step]);
    }
  }
  const keys = [...byKey.keys()];
  const writers = [...byKey].map(([key, steps]) => or(sameAnnotations([key]), isOneOf(steps)));
  return [unchanged('metadata.labels'), ...otherAnnotationsSame(list(keys)), ...writers];
}

function isOneOf(steps: readonly StepName[]): string {
  return `variables.steps.exists(step, step in ${list(steps)})`;
}

function hasLabel(object: 'object' | 'oldObject', labels: readonly string[]): string {
  return `${list(labels)}.exists(label, label in ${object}.?metadata.?labels.orValue({}))`;
}

function controlledByShard(object: 'object' | 'oldObject'): string {
  return `${object}.?metadata.?ownerReferences.orValue([]).exists(owner, ${and(
    'owner.?controller.orValue(false)',
    `owner.kind == 'Shard'`,
    `owner.apiVersion == ${text(apiVersionOf('Shard'))}`,
  )})`;
}

function ruleOn(kinds: readonly ResourceKind[], operations: readonly Operation[]): Rule {
  const types = kinds.map((kind) => resourceTypes[kind]);
  return {
    apiGroups: [...new Set(types.map(({ group }) => group))],
    // Whatever version it is sent in.
    apiVersions: ['*'],
    resources: types.map(({ plural }) => plural),
    operations,
  };
}

function manifestsOf(policy: Policy, namesOf: NamesOf): readonly Manifest[] {
  const { name, about, rules, variables = [], validations } = policy;
  const users = [...new Set(stepNames.flatMap(namesOf))];
  const isMillrace = `request.userInfo.username in ${list(users)}`;
  const steps = {
    name: 'steps',
    expression: `${list(stepNames)}.filter(step, request.userInfo.username in ${map(
      stepNames.map((step) => [step, list(namesOf(step))]),
    )}[step])`,
  };
  const metadata = { name, labels: partOf };
  const apiVersion = 'admissionregistration.k8s.io/v1';
  return [
    {
      apiVersion,
      kind: 'ValidatingAdmissionPolicy',
      metadata,
      spec: {
        failurePolicy: 'Fail',
        matchConstraints: { resourceRules: rules },
        matchConditions: [
          about === 'millrace'
            ? { name: 'by-millrace', expression: isMillrace }
            : { name: 'by-others', expression: `!(${isMillrace})` },
        ],
        variables: about === 'millrace' ? [steps, ...variables] : variables,
        validations: validations.map(({ expression, message }) => ({
          expression,
          message,
          reason: 'Forbidden',
        })),
      },
    },
    {
      apiVersion,
      kind: 'ValidatingAdmissionPolicyBinding',
      metadata,
      spec: { policyName: name, validationActions: ['Deny'] },
    },
  ];
}
