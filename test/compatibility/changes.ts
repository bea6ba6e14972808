import { narrowings } from './narrowing.ts';
import { type Speech, schemaIn } from './speech.ts';

/**
 * Everything that today's code does not say or read any more as a release did, each with its name. What that release had
 * retired already is left out.
 */
export function changesSince(released: Speech, today: Speech): readonly string[] {
  const all = [
    ...Object.keys(released.schemas).flatMap((name) =>
      name in today.schemas
        ? narrowings(schemaIn(released, name), schemaIn(today, name), name)
        : [`${name}: is gone`],
    ),
    ...Object.entries(released.names).flatMap(([sort, names]) =>
      names
        .filter((name) => today.names[sort]?.includes(name) !== true)
        .map((name) => `${sort}: ${name} is gone`),
    ),
    ...Object.entries(released.examples)
      .filter(([name, example]) => today.examples[name] !== example)
      .map(([name, example]) => `${name}: ${example} became ${today.examples[name] ?? 'nothing'}`),
  ];
  return all.filter((change) => !released.retired.some((path) => change.startsWith(path)));
}
