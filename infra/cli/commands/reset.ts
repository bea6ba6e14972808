import { recordAnnotation } from '#shared/api/annotations.ts';
import type { StepName } from '#shared/api/steps.ts';
import {
  type KubeObject,
  type ObjectRef,
  type TargetKind,
  shortNames,
} from '#shared/kube/resources.ts';
import { type Cluster, openCluster } from '../cluster.ts';
import { type OutputFlags, show } from '../output.ts';
import { readEnvironment, resolveSettings } from '../settings.ts';
import { parseTarget } from '../target.ts';
import { confirm, paint, print, remark } from '../terminal.ts';
import { UsageError } from '../usage-error.ts';

export interface ResetFlags extends OutputFlags {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly namespace: string;
  readonly yes?: boolean;
}

type Target = ObjectRef<TargetKind>;

/**
 * Clears one step's record by compare-and-swap, after a person has seen it and agreed.
 *
 * The step then starts over from what it reads: a drain that was under way is decided anew.
 */
export async function reset(targetText: string, step: StepName, flags: ResetFlags): Promise<0 | 1> {
  const settings = resolveSettings({ ...flags, namespace: [flags.namespace] }, readEnvironment());
  const target = parseTarget(targetText, flags.namespace);
  const cluster = await openCluster(settings.kubeconfig.value, flags.context);
  try {
    return await clear(cluster, target, step, flags);
  } finally {
    cluster.connection.close();
  }
}

async function clear(
  cluster: Cluster,
  target: Target,
  step: StepName,
  flags: ResetFlags,
): Promise<0 | 1> {
  const read = await cluster.kube.get(target);
  if (read.kind !== 'present') {
    const why =
      read.kind === 'unknown' ? read.why : 'there is no such target: look at its name and -n';
    return end(flags, { target, step, cleared: false, why }, 1);
  }
  const record = read.value.metadata.annotations?.[recordAnnotation(step)];
  if (record === undefined) {
    return end(flags, { target, step, cleared: false, why: 'there is no record to clear' }, 0);
  }
  if (flags.output === 'table') {
    print(`the record of ${step} on ${nameOf(target)}:`);
    print(readable(record));
  }
  if (!(await isAgreed(flags))) {
    return end(flags, { target, step, cleared: false, why: 'it was left as it is' }, 1);
  }
  const result = await swap(cluster, target, step, read.value, record);
  return result.kind === 'written'
    ? end(flags, { target, step, cleared: true, record }, 0)
    : end(
        flags,
        {
          target,
          step,
          cleared: false,
          why: `the target changed meanwhile (${result.why}); look again`,
        },
        1,
      );
}

function swap(
  { kube }: Cluster,
  target: Target,
  step: StepName,
  object: KubeObject<Target['kind']>,
  record: string,
) {
  const { uid, generation, resourceVersion } = object.metadata;
  return kube.swapAnnotation(
    target,
    { key: recordAnnotation(step), previous: record, next: null, uid, generation: generation ?? 0 },
    { resourceVersion, hasAnnotations: true },
  );
}

async function isAgreed(flags: ResetFlags): Promise<boolean> {
  if (flags.yes === true) {
    return true;
  }
  if (!process.stdin.isTTY) {
    throw new UsageError('there is no terminal to ask on; give --yes to clear the record');
  }
  return confirm('clear it? the step starts over from what it sees');
}

interface Result {
  readonly target: Target;
  readonly step: StepName;
  readonly cleared: boolean;
  readonly why?: string;
  readonly record?: string;
}

function end(flags: ResetFlags, result: Result, exitCode: 0 | 1): 0 | 1 {
  const target = nameOf(result.target);
  if (result.cleared || flags.output !== 'table') {
    show({ ...result, target }, flags.output, () =>
      paint('green', `cleared: ${result.step} starts over on ${target}`),
    );
  } else {
    remark(`${target}, ${result.step}: ${result.why ?? 'nothing was done'}`);
  }
  return exitCode;
}

function nameOf(target: Target): string {
  return `${shortNames[target.kind]}/${target.namespace}/${target.name}`;
}

function readable(record: string): string {
  try {
    return JSON.stringify(JSON.parse(record), undefined, 2);
  } catch {
    // An unreadable record is one of the reasons to be here.
    return record;
  }
}
