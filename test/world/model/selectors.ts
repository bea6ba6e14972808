interface Requirement {
  readonly key: string;
  readonly operator: 'equals' | 'differs' | 'exists' | 'absent';
  readonly value: string;
}

/** Tells whether labels are selected. */
export type Selector = (labels: { readonly [key: string]: unknown } | undefined) => boolean;

const everything: Selector = () => true;

const requirementPattern =
  /^\s*(?:(?<absent>!)\s*)?(?<key>[A-Za-z0-9._/-]+)\s*(?:(?<operator>==?|!=)\s*(?<value>[A-Za-z0-9._-]*))?\s*$/;

const parsed = new Map<string, Selector | undefined>([['', everything]]);

/** Texts of selectors kept in memory; a program asks with a handful. */
const maxParsed = 1_000;

/**
 * The selector in a `labelSelector`: equality and existence, joined by commas. `undefined` where it has another form: the
 * set-based operators are not known here.
 */
export function parseSelector(text: string): Selector | undefined {
  if (parsed.has(text)) {
    return parsed.get(text);
  }
  const requirements = text.split(',').map(parseRequirement);
  const known = requirements.filter((requirement) => requirement !== undefined);
  const selector: Selector | undefined =
    known.length < requirements.length
      ? undefined
      : (labels) => known.every((requirement) => isMet(requirement, labels?.[requirement.key]));
  if (parsed.size >= maxParsed) {
    parsed.clear();
  }
  parsed.set(text, selector);
  return selector;
}

function parseRequirement(text: string): Requirement | undefined {
  const { absent, key, operator, value = '' } = requirementPattern.exec(text)?.groups ?? {};
  if (key === undefined || (absent !== undefined && operator !== undefined)) {
    return undefined;
  }
  if (operator === undefined) {
    return { key, operator: absent === undefined ? 'exists' : 'absent', value: '' };
  }
  return { key, operator: operator === '!=' ? 'differs' : 'equals', value };
}

function isMet({ operator, value }: Requirement, found: unknown): boolean {
  switch (operator) {
    case 'equals':
      return found === value;
    case 'differs':
      return found !== value;
    case 'exists':
      return found !== undefined;
    case 'absent':
      return found === undefined;
  }
}
