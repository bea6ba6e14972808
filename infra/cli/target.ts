import { type ObjectRef, type TargetKind, shortNames } from '#shared/kube/resources.ts';
import { UsageError } from './usage-error.ts';

/** The targets of commands, by the short name they are written with. */
const kinds = Object.entries(shortNames) as readonly (readonly [TargetKind, string])[];

/**
 * What a person writes for a target: `shd/orders-0` with its namespace beside it, or `shd/db/orders-0` as it is printed.
 *
 * @throws UsageError where it is no target, or its namespace is not said
 */
export function parseTarget(text: string, namespace: string | undefined): ObjectRef<TargetKind> {
  const parts = text.split('/');
  const kind = kinds.find(([, short]) => short === parts[0])?.[0];
  const name = parts.at(-1) ?? '';
  if (kind === undefined || name === '' || parts.length < 2 || parts.length > 3) {
    const forms = kinds.map(([, short]) => `${short}/<name>`).join(', ');
    throw new UsageError(`${JSON.stringify(text)} is no target; write it as: ${forms}`);
  }
  const told = parts.length === 3 ? parts[1] : undefined;
  if (told !== undefined && namespace !== undefined && told !== namespace) {
    throw new UsageError(
      `${text} is in another namespace than ${namespace}: write it as ${parts[0]}/<name>`,
    );
  }
  const inNamespace = told ?? namespace;
  if (inNamespace === undefined || inNamespace === '') {
    throw new UsageError(`say in which namespace ${text} is: -n <namespace>`);
  }
  return { kind, namespace: inNamespace, name };
}
