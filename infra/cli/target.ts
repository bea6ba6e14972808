import { type TargetName, parseTargetName } from '#events/replay/selection.ts';
import { shortNames } from '#shared/kube/resources.ts';
import { UsageError } from './usage-error.ts';

/**
 * What a person writes for a target: `shd/orders-0` with its namespace beside it, or `shd/db/orders-0` as it is printed.
 *
 * @throws UsageError where it is no target, its namespace is not said, or another one is
 */
export function parseTarget(text: string, namespace: string | undefined): TargetName {
  const target = parseTargetName(text, namespace);
  if (target === undefined) {
    if (parseTargetName(text, 'any') !== undefined) {
      throw new UsageError(
        `say in which namespace ${text} is: -n <namespace>, or ${text.replace('/', '/<namespace>/')}`,
      );
    }
    const forms = Object.values(shortNames).map((short) => `${short}/<name>`);
    throw new UsageError(
      `${JSON.stringify(text)} is no target; write it as: ${forms.join(', ')}, or with its namespace: shd/<namespace>/<name>`,
    );
  }
  if (namespace !== undefined && target.namespace !== namespace) {
    throw new UsageError(
      `${text} is in another namespace than ${namespace}: write it as ${text.split('/')[0]}/<name>`,
    );
  }
  return target;
}
