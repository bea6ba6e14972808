/** A metric in an expression of Prometheus, with the labels that are asked of it or that it is summed up by. */
export interface Mention {
  readonly metric: string;
  readonly labels: readonly string[];
}

/** Words of the language that look like names: operators, aggregations, functions. */
const words: ReadonlySet<string> = new Set(
  [
    'and or unless by without on ignoring offset bool',
    'sum max min avg count topk',
    'rate increase histogram_quantile vector clamp_min',
  ].flatMap((line) => line.split(' ')),
);

/**
 * The metrics that an expression names. It reads names and not the whole language: an expression that Prometheus would
 * refuse may pass, one with a misspelled metric, label or function does not.
 *
 * @throws SyntaxError where brackets do not match, or a name is followed by a bracket without being a function known here
 */
export function mentionsIn(expr: string): readonly Mention[] {
  refuseUnbalanced(expr);
  const grouped = [...expr.matchAll(/\b(?:by|without|on|ignoring)\s*\(([^)]*)\)/g)].flatMap(
    ([, names = '']) => names.split(',').map((name) => name.trim()),
  );
  const bare = expr.replaceAll(/\b(?:by|without|on|ignoring)\s*\([^)]*\)/g, ' ');
  const mentions: Mention[] = [];
  for (const [, name = '', matchers, bracket] of bare
    .replaceAll(/\[[^\]]*\]|\boffset \w+/g, ' ')
    .matchAll(/(?<![\w".])([a-zA-Z_]\w*)(?:\{([^}]*)\})?\s*(\()?/g)) {
    if (words.has(name)) {
      continue;
    }
    if (bracket !== undefined) {
      throw new SyntaxError(`${name} is no function known here`);
    }
    const asked = [...(matchers ?? '').matchAll(/(\w+)\s*(?:=~|!~|!=|=)\s*"[^"]*"/g)].map(
      ([, label = '']) => label,
    );
    mentions.push({ metric: name, labels: [...asked, ...grouped] });
  }
  return mentions;
}

function refuseUnbalanced(expr: string): void {
  const open: string[] = [];
  const closers: Readonly<Record<string, string>> = { ')': '(', ']': '[', '}': '{' };
  for (const sign of expr.replaceAll(/"[^"]*"/g, '')) {
    if ('([{'.includes(sign)) {
      open.push(sign);
    } else if (sign in closers && open.pop() !== closers[sign]) {
      throw new SyntaxError(`a bracket ${sign} closes nothing`);
    }
  }
  if (open.length > 0) {
    throw new SyntaxError(`a bracket ${open.join('')} is not closed`);
  }
}
