import type { Reason } from '#shared/api/reasons.ts';
import type { StepName } from '#shared/api/steps.ts';
import type { Attention, Todo } from '../model.ts';

/** Whom an advice is about, as it is written in a command. */
export interface Names {
  readonly step: StepName;
  readonly namespace: string;
  /** `shd/orders-0` */
  readonly resource: string;
  /** The Database it is or belongs to, `mdb/orders`. */
  readonly database: string | null;
}

/** What a reason says to somebody who has never seen Millrace. Short: what can be done at length is in the runbooks. */
export interface Meaning {
  /** For a cell of a table. */
  readonly brief: string;
  readonly means: string;
  readonly attention: Attention;
  readonly waitsFor?: string;
  readonly todo?: (names: Names) => readonly Todo[];
  /** What happens by itself. */
  readonly next: string;
}

/** Where steps give the same reason and mean different things, each has its own. */
export type Entry = Meaning & {
  readonly byStep?: { readonly [S in StepName]?: Partial<Meaning> };
};

export type Entries = { readonly [R in Reason]?: Entry };

export function lookAtPods({ namespace }: Names, label: string): Todo {
  return {
    text: 'see which members are not ready, and why',
    command: `kubectl get pods -n ${namespace} -l ${label}`,
  };
}

/** What a refused or unanswered read asks for. */
export function askDoctor({ namespace }: Names): Todo {
  return {
    text: 'let doctor say what is refused or out of reach',
    command: `millrace doctor -n ${namespace}`,
  };
}

export function shardPods(names: Names): Todo {
  return lookAtPods(names, `millrace.dev/shard=${nameOf(names)}`);
}

export function nodePods(names: Names): Todo {
  return lookAtPods(names, `millrace.dev/goverse=${nameOf(names)}`);
}

function nameOf({ resource }: Names): string {
  return resource.slice(resource.indexOf('/') + 1);
}
