import pLimit from 'p-limit';
import { declarations } from '#infra/kubernetes/declarations.ts';
import {
  type NamedObject,
  proxyVerbs,
  reachesServices,
  readsSecrets,
} from '#infra/kubernetes/rbac.ts';
import { stepNames } from '#shared/api/steps.ts';
import { describeError } from '#shared/kernel/errors.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { type NamedSecrets, secretsOf } from '#shared/outside/credentials.ts';
import type { ServiceAddress } from '#shared/topology/access.ts';
import { proxiedName } from '#shared/topology/address.ts';
import type { Cluster } from '../cluster.ts';
import { type Check, failed, ok, skipped } from './check.ts';
import { listAll } from './list-all.ts';
import { type Question, isAllowed, questionsAtOnce } from './permissions.ts';

const name = 'Secrets and Services by name';

/**
 * Whether the steps' service accounts may read the Secrets, and reach the Services, that Databases and GoverseClusters
 * name: roles grant them by name alone, and nobody notices one that was forgotten before a step waits for it.
 *
 * Services that only the topology names, those of single cells, are not among them.
 */
export async function checkNamedObjects(
  { kube, connection }: Cluster,
  namespaces: readonly string[],
  accountsIn: string,
): Promise<Check> {
  const databases = await listAll(kube, 'Database', namespaces);
  const clusters = await listAll(kube, 'GoverseCluster', namespaces);
  if (typeof databases === 'string') {
    return skipped(name, databases);
  }
  if (typeof clusters === 'string') {
    return skipped(name, clusters);
  }
  const named = [...databases.flatMap(namedByDatabase), ...clusters.flatMap(namedByCluster)];
  if (named.length === 0) {
    return skipped(name, 'nothing names any');
  }
  const limit = pLimit(questionsAtOnce);
  try {
    const answers = await Promise.all(
      named.flatMap((object) =>
        stepNames
          .filter((step) => mayNeed(object)(declarations[step]))
          .map((account) =>
            limit(async () => {
              const asked = { namespace: accountsIn, account };
              const granted = await Promise.all(
                questionsAbout(object).map((question) => isAllowed(question, asked, connection)),
              );
              return granted.includes(false) ? [object] : [];
            }),
          ),
      ),
    );
    const missing = [...new Set(answers.flat().map(optionFor))];
    return missing.length === 0
      ? ok(name, `all ${named.length} are granted`)
      : failed(
          name,
          'some are not granted',
          `give \`millrace manifests\` ${missing.join(' ')} besides`,
        );
  } catch (error) {
    return failed(
      name,
      describeError(error),
      'ask as somebody who may create subjectaccessreviews',
    );
  }
}

/** A Secret by its name; a Service by the name that it has in the path of the API server's proxy. */
interface Named extends NamedObject {
  readonly kind: 'Secret' | 'Service';
}

interface NamedByEtcd extends NamedSecrets {
  readonly service?: ServiceAddress | undefined;
}

function namedByDatabase({ metadata, spec }: KubeObject<'Database'>): readonly Named[] {
  const namespace = metadata.namespace ?? '';
  const { topology, admin } = spec.dataPlane;
  const keys = spec.backup?.repository.s3?.credentialsSecret;
  return [
    ...namedByEtcd(topology, namespace),
    ...serviceOf(admin.service, namespace, 'http'),
    ...(keys === undefined ? [] : [secretIn(namespace, keys)]),
  ];
}

function namedByCluster({ metadata, spec }: KubeObject<'GoverseCluster'>): readonly Named[] {
  return namedByEtcd(spec.topology, metadata.namespace ?? '');
}

function namedByEtcd(etcd: NamedByEtcd, namespace: string): readonly Named[] {
  return [
    ...serviceOf(etcd.service, namespace, etcd.tlsSecret === undefined ? 'http' : 'https'),
    ...secretsOf(etcd).map((secret) => secretIn(namespace, secret)),
  ];
}

function secretIn(namespace: string, secret: string): Named {
  return { kind: 'Secret', namespace, name: secret };
}

function serviceOf(
  service: ServiceAddress | undefined,
  namespace: string,
  scheme: 'http' | 'https',
): readonly Named[] {
  return service === undefined
    ? []
    : [
        {
          kind: 'Service',
          namespace: service.namespace ?? namespace,
          name: proxiedName(service, scheme),
        },
      ];
}

function mayNeed({ kind }: Named): typeof readsSecrets {
  return kind === 'Secret' ? readsSecrets : reachesServices;
}

function questionsAbout({ kind, namespace, name: object }: Named): readonly Question[] {
  return kind === 'Secret'
    ? [{ access: { kind, verb: 'get' }, namespace, object }]
    : proxyVerbs.map((verb) => ({
        access: { kind, verb, subresource: 'proxy' },
        namespace,
        object,
      }));
}

function optionFor({ kind, namespace, name: object }: Named): string {
  return `--${kind.toLowerCase()} ${namespace}/${object}`;
}
