import { Cron } from 'croner';
import { describeError } from '#shared/kernel/errors.ts';

/**
 * The times a cron expression names on the clock on the wall, without a time zone. A time is written as the milliseconds
 * since the epoch at which a clock in UTC shows it. Which instants these are in a zone is not decided here.
 */
export type WallTimes =
  | {
      readonly kind: 'times';
      /** The first time after this one; `undefined` where there is none any more. */
      next(after: number): number | undefined;
    }
  | { readonly kind: 'invalid'; readonly why: string };

/**
 * Reads a cron expression of five fields: minute, hour, day of month, month, day of week.
 *
 * What it means is croner's to say (its README, section "Pattern"); the field of the seconds and `?`, which stands for the
 * moment the expression was read, are refused by the rules of the API.
 */
export function parseCron(expression: string): WallTimes {
  let cron: Cron;
  try {
    cron = new Cron(expression, { mode: '5-part', utcOffset: 0, paused: true });
  } catch (error) {
    return { kind: 'invalid', why: describeError(error).replace(/^CronPattern: /, '') };
  }
  return {
    kind: 'times',
    next: (after) => cron.nextRun(new Date(after))?.getTime(),
  };
}
