import {
  type Settings,
  type SettingsFlags,
  readEnvironment,
  resolveSettings,
} from '../settings.ts';
import { type OutputFlags, show } from '../output.ts';
import { paint, table } from '../terminal.ts';

interface Row {
  readonly name: string;
  readonly value: string | number | readonly string[];
  readonly source: string;
}

/** Prints every setting with its source. Asks no cluster, runs no program, and holds no secret to begin with. */
export async function config({ output, ...flags }: SettingsFlags & OutputFlags): Promise<0> {
  const rows = describe(resolveSettings(flags, readEnvironment()));
  const values = rows.map(({ name, value, source }) => [name, { value, source }]);
  show(Object.fromEntries(values), output, () => {
    const heading = ['SETTING', 'VALUE', 'FROM'].map((title) => paint('bold', title));
    return table([heading, ...rows.map((row) => [row.name, textOf(row.value), row.source])]);
  });
  return 0;
}

function describe(settings: Settings): readonly Row[] {
  const { cluster, kubeconfig, stateFolder, clusterId, dataDir } = settings;
  const fromFile = `kubeconfig ${kubeconfig.value}`;
  return [
    { name: 'kubeconfig', ...kubeconfig },
    { name: 'context', value: cluster.context, source: settings.contextSource },
    { name: 'server', value: cluster.server, source: fromFile },
    { name: 'credentials', value: `${cluster.credentials} (hidden)`, source: fromFile },
    {
      name: 'clusterId',
      value: clusterId.value ?? "the kube-system namespace's uid",
      source: clusterId.source,
    },
    { name: 'namespaces', ...settings.namespaces },
    { name: 'stage', ...settings.stage },
    {
      name: 'dataDir',
      value: dataDir.value ?? `${stateFolder.value}/${clusterId.value ?? '<cluster id>'}`,
      source: dataDir.value === undefined ? stateFolder.source : dataDir.source,
    },
    { name: 'region', ...settings.region },
    { name: 'logLevel', ...settings.logLevel },
    { name: 'recorded', ...settings.recorded },
    { name: 'functionTimeoutSeconds', ...settings.functionTimeoutSeconds },
    { name: 'functionConcurrency', ...settings.functionConcurrency },
    { name: 'sweepSeconds', ...settings.sweepSeconds },
    { name: 'visibilitySeconds', ...settings.visibilitySeconds },
  ];
}

function textOf(value: Row['value']): string {
  if (typeof value === 'string' || typeof value === 'number') {
    return String(value);
  }
  return value.length === 0 ? 'all' : value.join(', ');
}
