import { problemsOf } from './parameters.ts';

/** What is read of Serverless. */
interface Serverless {
  /** What is thrown as one is shown without a stack. */
  readonly classes: { readonly Error: new (message: string) => Error };
  readonly service: { readonly custom: { readonly parameters: Readonly<Record<string, string>> } };
}

/** `--param name=value`, each. */
interface Options {
  readonly param?: readonly string[];
}

/**
 * A plugin of Serverless: before anything is packaged, all parameters are checked at once. Without it each missing one would
 * be reported once for every place that uses it, and a wrong one by a function that does not start.
 */
export default class CheckParameters {
  readonly hooks: Readonly<Record<string, () => void>>;

  constructor({ classes, service }: Serverless, { param = [] }: Options) {
    this.hooks = {
      'before:package:cleanup': () => {
        const given = param.map((each) => each.replace(/=.*$/s, ''));
        const problems = problemsOf(service.custom.parameters, given);
        if (problems.length > 0) {
          const lines = problems.map((problem) => `  - ${problem}`);
          throw new classes.Error(
            ['Give each of these as --param <name>=<value>:', ...lines].join('\n'),
          );
        }
      },
    };
  }
}
