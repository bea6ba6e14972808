import * as z from 'zod';

type Values = Readonly<Record<string, string>>;

/** What of a template says how its values come about. */
export const conditionalSchema = z.object({
  Parameters: z.record(z.string(), z.object({ Default: z.string() })),
  Conditions: z.record(z.string(), z.unknown()),
});

const choice = z.object({ 'Fn::If': z.tuple([z.string(), z.unknown(), z.unknown()]) });
const reference = z.object({ Ref: z.string() });
const substitution = z.object({ 'Fn::Sub': z.string() });
const comparison = z.object({ 'Fn::Equals': z.tuple([z.unknown(), z.unknown()]) });
const negation = z.object({ 'Fn::Not': z.tuple([z.unknown()]) });
const conjunction = z.object({ 'Fn::And': z.array(z.unknown()) });

const noValue = Symbol('no value');

/**
 * A part of a template as CloudFormation would make it of these parameters: conditions are decided, parameters put in, and
 * what has no value is left out. Functions that ask other resources stay as they are.
 *
 * @param given instead of the parameters' defaults
 */
export function evaluate(
  value: unknown,
  { Parameters, Conditions }: z.infer<typeof conditionalSchema>,
  given: Values = {},
): unknown {
  const defaults = Object.entries(Parameters).map(([name, { Default }]) => [name, Default]);
  const values: Values = { ...Object.fromEntries(defaults), ...given };

  const holds = (condition: unknown): boolean => {
    if (comparison.safeParse(condition).success) {
      const [one, other] = comparison.parse(condition)['Fn::Equals'];
      return valueOf(one) === valueOf(other);
    }
    if (negation.safeParse(condition).success) {
      return !holds(negation.parse(condition)['Fn::Not'][0]);
    }
    return conjunction.parse(condition)['Fn::And'].every(holds);
  };

  const valueOf = (part: unknown): unknown => {
    const chosen = choice.safeParse(part);
    if (chosen.success) {
      const [condition, one, other] = chosen.data['Fn::If'];
      return valueOf(holds(Conditions[condition]) ? one : other);
    }
    const referred = reference.safeParse(part);
    if (referred.success) {
      return referred.data.Ref === 'AWS::NoValue' ? noValue : (values[referred.data.Ref] ?? part);
    }
    const substituted = substitution.safeParse(part);
    if (substituted.success) {
      const text = substituted.data['Fn::Sub'];
      return {
        'Fn::Sub': text.replaceAll(/\$\{(\w+)\}/g, (whole, name: string) => values[name] ?? whole),
      };
    }
    if (Array.isArray(part)) {
      return part.map(valueOf).filter((each) => each !== noValue);
    }
    return typeof part === 'object' && part !== null
      ? Object.fromEntries(
          Object.entries(part)
            .map(([name, each]) => [name, valueOf(each)] as const)
            .filter(([, each]) => each !== noValue),
        )
      : part;
  };

  return valueOf(value);
}
