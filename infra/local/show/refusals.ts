/** One line of a narrow terminal. */
const longestReason = 60;

/**
 * Lets through one line of each kind of refused hint, without the id of its message, and every other line as it is:
 * a flood of bad messages must not drown what else is said.
 */
export function firstOfEachRefusal(say: (line: string) => void): (line: string) => void {
  const told = new Set<string>();
  return (line) => {
    const [, why] = /^worker: hint refused [^(]*\((.*)$/.exec(line) ?? [];
    if (why === undefined) {
      say(line);
      return;
    }
    const reason = shortened(why.replace(/\)$/, ''));
    if (!told.has(reason)) {
      told.add(reason);
      say(`refused: ${reason}`);
    }
  };
}

function shortened(text: string): string {
  return text.length > longestReason ? `${text.slice(0, longestReason - 1)}…` : text;
}
