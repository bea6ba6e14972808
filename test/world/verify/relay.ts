import { runRelayPlans } from '#test/world/relay/relay-plans.ts';
import { relayWorkloads } from '#test/world/relay/relay-workloads.ts';
import type { Part } from './part.ts';

/** Plans with one fault in CI, and pairs in the long run; a hunt ends with the first violation. */
export const relayPart: Part = {
  name: 'relay',
  async run({ seed, scale, share, isHunt, minutes }, onProgress) {
    const workloads = relayWorkloads
      .map(({ name }) => name)
      .filter((_name, place) => place % share.of === share.index);
    const report = await runRelayPlans({
      maxFaults: scale === 'short' ? 1 : 2,
      seed,
      workloads,
      isHunt,
      budgetMs: minutes * 60_000,
      onPlan: (plans) => onProgress(`${plans} plans`),
    });
    return {
      figures: {
        plans: report.plans,
        rawPlans: report.counts.reduce((sum, { raw }) => sum + raw, 0),
        plansNotReached: report.counts.reduce((sum, { pruned, run }) => sum + pruned - run, 0),
      },
      violations: report.violations.map(({ law, message, plan }) => ({
        invariant: law,
        replay: `--relay-plan '${JSON.stringify(plan)}'`,
        message,
      })),
      evaluated: Object.fromEntries(
        [...report.evaluated].map(([law, count]) => [law, { relay: count }]),
      ),
      covered: [],
    };
  },
};
