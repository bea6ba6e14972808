/**
 * Names of what Millrace creates: the parts that people chose, then a hash of them as they were, so that names that were
 * cut or cleaned still differ. Roles are in no name, because roles move.
 */

/** With `-<index>` of two digits a pod's name stays a DNS label (63 characters), and so does its hostname. */
const maxPodBaseLength = 60;

/** What a Service's name may have (RFC 1035 label). */
const maxServiceNameLength = 63;

/** The highest index that fits behind the longest base. */
export const maxIndex = 99;

/** With `-` and the five characters that its pod gets behind it, a Job's name stays a DNS label (63 characters). */
const maxJobNameLength = 57;

/** PostgreSQL keeps 63 bytes of an application name (NAMEDATALEN - 1), and a pooler's is `<cell>_<service id>`. */
const maxApplicationNameBytes = 63;

/** Stands before the hash of a name that was cut. */
const cutMark = '---';

/** FNV-1a, 32 bit, over each part followed by one zero byte, as 8 lower-case hex digits. */
export function fnv1a32(...parts: readonly string[]): string {
  let hash = 0x811c9dc5;
  for (const byte of parts.flatMap((part) => [...Buffer.from(part, 'utf8'), 0])) {
    hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  }
  return hash.toString(16).padStart(8, '0');
}

/** What the pods of one pool in one cell have in common: at most 60 characters. */
export function podBaseName(shard: string, pool: string, cell: string): string {
  return joinName(maxPodBaseLength, shard, pool, cell);
}

/**
 * The name, and the hostname, of a pod.
 *
 * @param index 0 to 99
 * @throws RangeError for any other index, because the name might be no DNS label then
 */
export function podName(base: string, index: number): string {
  if (!Number.isInteger(index) || index < 0 || index > maxIndex) {
    throw new RangeError(`a pod cannot have the index ${index}: it is 0 to ${maxIndex}`);
  }
  return `${base}-${index}`;
}

/** The data claim of a pod. It may have 68 characters, which a claim may (DNS subdomain); no label carries it. */
export function claimName(pod: string): string {
  return `data-${pod}`;
}

/**
 * The claim that the backups of a Shard are on where they are kept in a file system. A Shard's name has 30 characters at
 * most, so none is ever cut; and no data claim's name begins like this.
 */
export function sharedBackupClaimName(shard: string): string {
  return `backup-data-${shard}`;
}

/** The Shard's headless Service, which is the subdomain of its pods. */
export function serviceName(shard: string): string {
  return joinName(maxServiceNameLength, shard);
}

/** The PodDisruptionBudget of one pool in one cell. */
export function budgetName(base: string): string {
  return base;
}

/**
 * The Job of one attempt at a slot.
 *
 * @param slot RFC 3339
 */
export function backupJobName(
  shard: string,
  schedule: string,
  slot: string,
  attempt: number,
): string {
  return joinName(maxJobNameLength, shard, schedule, slot, String(attempt));
}

/** The service id under which a pod's pooler registers: its name, or a hash of it where PostgreSQL would cut it. */
export function poolerName(cell: string, pod: string): string {
  const applicationName = Buffer.byteLength(`${cell}_${pod}`);
  return applicationName <= maxApplicationNameBytes ? pod : `p-${fnv1a32(pod)}`;
}

function joinName(maxLength: number, ...parts: readonly string[]): string {
  const hash = fnv1a32(...parts);
  const clean = parts.map((part) => part.toLowerCase().replaceAll(/[^a-z0-9-]/g, '-')).join('-');
  // A Service's name must begin with a letter.
  const start = /^[a-z]/.test(clean) ? clean : `x${clean}`;
  const whole = `${start}-${hash}`;
  return whole.length <= maxLength
    ? whole
    : `${start.slice(0, maxLength - cutMark.length - hash.length)}${cutMark}${hash}`;
}
