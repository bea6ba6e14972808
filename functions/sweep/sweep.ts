import * as z from 'zod';
import { type Hint, makeHint } from '#events/hint.ts';
import { type Route, type Routing, targetKinds } from '#events/routes.ts';
import type { StepName } from '#shared/api/steps.ts';
import { type Clock, type Instant, parseInstant, secondsBetween } from '#shared/kernel/instant.ts';
import { type SandboxParts, deadlineOf } from '#shared/kernel/sandbox.ts';
import { Meter } from '#shared/kernel/telemetry.ts';
import type { KubePages, ListOptions } from '#shared/kube/kube.ts';
import { type ResourceKind, resourceTypes } from '#shared/kube/resources.ts';
import type { QueueSender } from '#shared/queue/queue.ts';
import { type SweptTarget, isOverdue } from './overdue.ts';
import { Sending } from './send.ts';

export interface SweepParts extends SandboxParts {
  readonly clock: Clock;
  readonly config: {
    readonly MILLRACE_CLUSTER_ID: string;
    readonly MILLRACE_STAGE: string;
    /** Empty: all. */
    readonly MILLRACE_NAMESPACES: readonly string[];
  };
  readonly pages: KubePages;
  readonly queues: QueueSender;
  readonly routing: Routing;
}

/** One sweep in numbers. */
export interface Swept {
  /** Targets seen, each once. */
  readonly targets: number;
  /** Hints that were due, by step. */
  readonly overdue: Readonly<Partial<Record<StepName, number>>>;
  readonly sent: number;
  readonly failed: number;
  readonly seconds: number;
}

/** All that is read of the event: when its tick was. Whoever forges one changes the ids of hints, and nothing else. */
const scheduled = z.looseObject({ time: z.string() });

/**
 * One sweep: lists every target and sends a hint for each look that is overdue. It writes nothing and decides nothing.
 *
 * Each page's hints are sent before the next page is asked for, so that memory is bounded by a page, and what is known is
 * told also where the rest cannot be read.
 *
 * @param event of an EventBridge schedule; with one tick told twice the hints have the same ids
 * @throws Error naming everything that was not read or not sent, once all else is done: whoever watches the function's
 *   failures has to hear that the backstop has a hole
 */
export async function runSweep(
  event: unknown,
  remainingMs: () => number,
  parts: SweepParts,
): Promise<Swept> {
  const begun = parts.clock();
  const tick = tickOf(event, begun);
  const signal = deadlineOf(parts, remainingMs);
  const sending = new Sending({
    queues: parts.queues,
    stage: parts.config.MILLRACE_STAGE,
    signal,
  });
  const { targets, problems } = await sweepAll(parts, signal, async (kind, page) => {
    await Promise.all(
      parts.routing.routes
        .filter((route) => route.target === kind)
        .map((route) =>
          sending.send(route.step, overdueHints(route, page, { now: begun, tick }, parts)),
        ),
    );
  });
  const results = [...sending.results()];
  const unsent = results.flatMap(([step, { failed, why }]) =>
    failed === 0 ? [] : [`${failed} hints of ${step} were not sent: ${why}`],
  );
  const swept: Swept = {
    targets,
    overdue: Object.fromEntries(results.map(([step, { sent, failed }]) => [step, sent + failed])),
    sent: results.reduce((sum, [, { sent }]) => sum + sent, 0),
    failed: results.reduce((sum, [, { failed }]) => sum + failed, 0),
    seconds: secondsBetween(begun, parts.clock()),
  };
  const missing = [...problems, ...unsent];
  tellNumbers(swept, missing.length === 0, parts);
  if (missing.length > 0) {
    parts.logger.error({ ...swept, missing }, 'swept in part');
    throw new Error(`the sweep is incomplete: ${missing.join('; ')}`);
  }
  parts.logger.info(swept, 'swept');
  return swept;
}

function tellNumbers(
  { targets, sent, failed }: Swept,
  isWhole: boolean,
  { telemetry }: SweepParts,
): void {
  const meter = new Meter(telemetry);
  meter.count('millrace_sweeps_total', { result: isWhole ? 'whole' : 'part' });
  meter.count('millrace_sweep_hints_total', { result: 'sent' }, sent);
  meter.count('millrace_sweep_hints_total', { result: 'failed' }, failed);
  meter.measure('millrace_sweep_targets', {}, targets);
  meter.tell();
}

/** Reads every page of every list. A list that breaks off does not keep the others from being read. */
async function sweepAll(
  { pages, config, routing }: SweepParts,
  signal: AbortSignal,
  onPage: (kind: ResourceKind, page: readonly SweptTarget[]) => Promise<void>,
): Promise<{ readonly targets: number; readonly problems: readonly string[] }> {
  const problems: string[] = [];
  let targets = 0;
  const scopes: readonly ListOptions[] =
    config.MILLRACE_NAMESPACES.length === 0
      ? [{}]
      : config.MILLRACE_NAMESPACES.map((namespace) => ({ namespace }));
  for (const kind of targetKinds(routing)) {
    for (const scope of scopes) {
      for await (const page of pages.pages(kind, scope, signal)) {
        if (page.kind === 'present') {
          targets += page.value.length;
          await onPage(kind, page.value);
        } else {
          problems.push(
            page.kind === 'absent'
              ? `the API server serves no ${resourceTypes[kind].plural}`
              : `${scope.namespace ?? 'all namespaces'}: ${page.why}`,
          );
        }
      }
    }
  }
  return { targets, problems };
}

function overdueHints(
  route: Route,
  page: readonly SweptTarget[],
  { now, tick }: { readonly now: Instant; readonly tick: Instant },
  { config }: SweepParts,
): readonly Hint[] {
  return page
    .filter((target) => isOverdue(route, target, now))
    .map(({ metadata: { namespace = '', name, uid, resourceVersion } }) =>
      makeHint({
        step: route.step,
        cause: 'wake',
        source: config.MILLRACE_CLUSTER_ID,
        target: {
          kind: route.target,
          plural: resourceTypes[route.target].plural,
          namespace,
          name,
          uid,
          resourceVersion,
        },
        token: String(tick),
        at: now,
      }),
    );
}

function tickOf(event: unknown, now: Instant): Instant {
  const parsed = scheduled.safeParse(event);
  return (parsed.success ? parseInstant(parsed.data.time) : undefined) ?? now;
}
