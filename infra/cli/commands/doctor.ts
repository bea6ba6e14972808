import { leaseSchema } from '#events/relay/config.ts';
import { accessOf, leaseAccess, relayAccess, sweepAccess } from '#infra/kubernetes/access.ts';
import { declarations } from '#infra/kubernetes/declarations.ts';
import { stepNames } from '#shared/api/steps.ts';
import { type Cluster, openCluster } from '../cluster.ts';
import { checkApiServer } from '../doctor/api-server.ts';
import type { Check } from '../doctor/check.ts';
import { checkDatabases } from '../doctor/databases.ts';
import { checkDefinitions } from '../doctor/definitions.ts';
import { checkGoverseClusters } from '../doctor/goverse.ts';
import { checkPermissions } from '../doctor/permissions.ts';
import { checkRelayVersions } from '../doctor/versions.ts';
import { type SettingsFlags, readEnvironment, resolveSettings } from '../settings.ts';
import { paint, print, printJson, table, withProgress } from '../terminal.ts';

/** Looks at everything Millrace needs, changes nothing, and says what to do about each failure. */
export async function doctor(flags: SettingsFlags & { readonly json?: boolean }): Promise<0 | 1> {
  const settings = resolveSettings(flags, readEnvironment());
  const cluster = await openCluster(settings.kubeconfig.value, flags.context);
  try {
    const checks = await withProgress(
      'looking at the cluster',
      examine(cluster, settings.namespaces.value),
    );
    report(checks, flags.json === true);
    return checks.some((check) => check.result === 'failed') ? 1 : 0;
  } finally {
    cluster.connection.close();
  }
}

async function examine(cluster: Cluster, namespaces: readonly string[]): Promise<readonly Check[]> {
  const apiServer = await checkApiServer(cluster);
  if (apiServer.some((check) => check.result === 'failed' && check.name !== 'clock')) {
    // Everything else would fail for the same reason.
    return apiServer;
  }
  const [definitions, relay, permissions, databases, goverse] = await Promise.all([
    checkDefinitions(cluster.kube),
    checkRelayVersions(cluster.kube),
    checkEveryPermission(cluster, namespaces),
    checkDatabases(cluster, namespaces),
    checkGoverseClusters(cluster, namespaces),
  ]);
  return [...apiServer, ...definitions, relay, ...permissions, ...databases, ...goverse];
}

function checkEveryPermission(
  { connection }: Cluster,
  namespaces: readonly string[],
): Promise<readonly Check[]> {
  const steps = stepNames.map((name) =>
    checkPermissions(
      `permissions of ${name}`,
      accessOf(declarations[name]),
      namespaces,
      connection,
    ),
  );
  const relay = checkPermissions('permissions of the relay', relayAccess, namespaces, connection);
  const sweep = checkPermissions('permissions of the sweep', sweepAccess, namespaces, connection);
  return Promise.all([relay, ...checkLease(connection), ...steps, sweep]);
}

/** Only where a Lease is named: a relay without one always sends. A name that is none is the relay's own to refuse. */
function checkLease(connection: Cluster['connection']): readonly Promise<Check>[] {
  const lease = leaseSchema.safeParse(readEnvironment()['MILLRACE_LEASE']);
  return lease.success
    ? [
        checkPermissions(
          'permissions of the relay’s lease',
          leaseAccess,
          [lease.data.namespace],
          connection,
        ),
      ]
    : [];
}

const marks = { ok: '✓', failed: '✗', skipped: '-' } as const;
const colours = { ok: 'green', failed: 'red', skipped: 'dim' } as const;

function report(checks: readonly Check[], isJson: boolean): void {
  const failures = checks.filter((check) => check.result === 'failed');
  if (isJson) {
    printJson({ ok: failures.length === 0, checks });
    return;
  }
  print(
    table(
      checks.flatMap(({ name, result, found, advice }) => [
        [paint(colours[result], marks[result]), name, found],
        ...(advice === undefined ? [] : [['', '', `→ ${advice}`]]),
      ]),
    ),
  );
  print(
    failures.length === 0
      ? paint('green', 'nothing stands in the way')
      : paint('red', `${failures.length} of ${checks.length} checks failed`),
  );
}
