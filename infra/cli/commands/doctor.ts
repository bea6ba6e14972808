import { leaseSchema } from '#events/relay/config.ts';
import { accessOf, leaseAccess, relayAccess, sweepAccess } from '#infra/kubernetes/access.ts';
import { declarations } from '#infra/kubernetes/declarations.ts';
import { type IdentityName, leaseName, namedKinds } from '#infra/kubernetes/rbac.ts';
import { stepNames, sweepName } from '#shared/api/steps.ts';
import { type Cluster, openCluster } from '../cluster.ts';
import { checkApiServer } from '../doctor/api-server.ts';
import type { Check } from '../doctor/check.ts';
import { checkDatabases } from '../doctor/databases.ts';
import { checkDefinitions } from '../doctor/definitions.ts';
import { checkGoverseClusters } from '../doctor/goverse.ts';
import { checkNamedObjects } from '../doctor/named-objects.ts';
import { type Need, checkPermissions } from '../doctor/permissions.ts';
import { checkRelayVersions } from '../doctor/versions.ts';
import { type OutputFlags, show } from '../output.ts';
import { type SettingsFlags, readEnvironment, resolveSettings } from '../settings.ts';
import { paint, sentences, withProgress } from '../terminal.ts';

export interface DoctorFlags extends SettingsFlags, OutputFlags {
  /** The namespace whose service accounts are asked about instead of the caller. */
  readonly accounts?: string;
}

/** Looks at everything Millrace needs, changes nothing, and says what to do about each failure. */
export async function doctor(flags: DoctorFlags): Promise<0 | 1> {
  const settings = resolveSettings(flags, readEnvironment());
  const cluster = await openCluster(settings.kubeconfig.value, flags.context);
  try {
    const checks = await withProgress(
      'looking at the cluster',
      examine(cluster, settings.namespaces.value, flags.accounts),
    );
    const failures = checks.filter((check) => check.result === 'failed').length;
    show({ ok: failures === 0, checks }, flags.output, () => report(checks, failures));
    return failures === 0 ? 0 : 1;
  } finally {
    cluster.connection.close();
  }
}

async function examine(
  cluster: Cluster,
  namespaces: readonly string[],
  accountsIn: string | undefined,
): Promise<readonly Check[]> {
  const apiServer = await checkApiServer(cluster);
  if (apiServer.some((check) => check.result === 'failed' && check.name !== 'clock')) {
    // Everything else would fail for the same reason.
    return apiServer;
  }
  const [definitions, relay, permissions, named, databases, goverse] = await Promise.all([
    checkDefinitions(cluster.kube),
    checkRelayVersions(cluster.kube),
    checkEveryPermission(cluster, namespaces, accountsIn),
    Promise.all(
      accountsIn === undefined ? [] : [checkNamedObjects(cluster, namespaces, accountsIn)],
    ),
    checkDatabases(cluster, namespaces),
    checkGoverseClusters(cluster, namespaces),
  ]);
  return [...apiServer, ...definitions, relay, ...permissions, ...named, ...databases, ...goverse];
}

/** Of the caller, who is everything in `millrace dev`; or of the service accounts that `millrace manifests` makes. */
function checkEveryPermission(
  { connection }: Cluster,
  namespaces: readonly string[],
  accountsIn: string | undefined,
): Promise<readonly Check[]> {
  const check = (account: IdentityName, need: Omit<Need, 'namespaces'> & Partial<Need>) =>
    checkPermissions(
      { namespaces, ...need },
      accountsIn === undefined ? 'caller' : { namespace: accountsIn, account },
      connection,
    );
  const relay = check('relay', { name: 'permissions of the relay', access: relayAccess });
  const lease = leaseOf(accountsIn).map(({ namespace, name: object }) =>
    check('relay', {
      name: 'permissions of the relay’s lease',
      access: leaseAccess,
      namespaces: [namespace],
      object,
    }),
  );
  const steps = stepNames.map((name) =>
    check(name, {
      name: `permissions of ${name}`,
      access: accessOf(declarations[name]).filter(
        // An account has these by the names of objects, of which there is a check of its own.
        ({ kind }) => accountsIn === undefined || !namedKinds.has(kind),
      ),
    }),
  );
  const sweep = check(sweepName, { name: 'permissions of the sweep', access: sweepAccess });
  return Promise.all([relay, ...lease, ...steps, sweep]);
}

/** Only where a Lease is named: a relay without one always sends. A name that is none is the relay's own to refuse. */
function leaseOf(
  accountsIn: string | undefined,
): readonly { readonly namespace: string; readonly name: string }[] {
  if (accountsIn !== undefined) {
    return [{ namespace: accountsIn, name: leaseName }];
  }
  const lease = leaseSchema.safeParse(readEnvironment()['MILLRACE_LEASE']);
  return lease.success ? [lease.data] : [];
}

const marks = { ok: '✓', failed: '✗', skipped: '-' } as const;
const colours = { ok: 'green', failed: 'red', skipped: 'dim' } as const;

function report(checks: readonly Check[], failures: number): string {
  const rows = checks.flatMap(({ name, result, found, advice }) => [
    [paint(colours[result], marks[result]), name, found],
    ...(advice === undefined ? [] : [['', '', `→ ${advice}`]]),
  ]);
  const conclusion =
    failures === 0
      ? paint('green', 'nothing stands in the way')
      : paint('red', `${failures} of ${checks.length} checks failed`);
  return `${sentences(rows)}\n${conclusion}`;
}
