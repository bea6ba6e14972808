import { remark } from '../terminal.ts';
import type { ChildName, ChildrenOptions } from './children.ts';
import { describeDecision, describeTrouble, parseDecision } from './decision-line.ts';

export interface Output {
  /** What the children do becomes lines: decisions and restarts on stdout, all else that matters on stderr. */
  readonly listeners: Pick<ChildrenOptions, 'onLine' | 'onErrorLine' | 'onDeath' | 'onRestart'>;
  /** Writes what comes first, and then everything that was held back until now. */
  begin(firstLines: readonly string[]): void;
}

/**
 * The lines of `dev`. Nothing is written before {@link Output.begin}: messages left from an earlier run may be decided
 * before everything runs, and who reads the lines waits for the first one to say where that is.
 */
export function createOutput(isJson: boolean, write: (line: string) => void): Output {
  let held: string[] | undefined = [];
  const say = (line: string): void => {
    if (held === undefined) {
      write(line);
    } else {
      held.push(line);
    }
  };
  return {
    listeners: {
      onLine(child: ChildName, line: string): void {
        const decision = parseDecision(line);
        if (decision !== undefined) {
          say(isJson ? JSON.stringify(decision) : describeDecision(decision));
          return;
        }
        const trouble = describeTrouble(child, line);
        if (trouble !== undefined) {
          remark(trouble);
        }
      },
      onErrorLine(child, line) {
        remark(`${child}: ${line}`);
      },
      onDeath(child, why, pauseMs) {
        remark(`the ${child} ${why}; it is started again in ${(pauseMs / 1000).toFixed(1)} s`);
      },
      onRestart(child, pid) {
        say(
          isJson
            ? JSON.stringify({ restarted: child, pid })
            : `the ${child} runs again as process ${pid}`,
        );
      },
    },
    begin(firstLines) {
      const early = held ?? [];
      held = undefined;
      for (const line of [...firstLines, ...early]) {
        write(line);
      }
    },
  };
}
