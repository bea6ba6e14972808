import { readDefinitions } from '../definitions.ts';
import { print, printJson } from '../terminal.ts';

/** Prints what `dev --install` applies, for whoever applies it by other means. */
export async function manifests(flags: { readonly json?: boolean }): Promise<0> {
  const definitions = readDefinitions();
  if (flags.json === true) {
    printJson({
      apiVersion: 'v1',
      kind: 'List',
      items: definitions.map((definition) => definition.manifest),
    });
  } else {
    print(definitions.map((definition) => definition.text.trimEnd()).join('\n---\n'));
  }
  return 0;
}
