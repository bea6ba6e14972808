/** Who a shard is meant for, who has it, and what else its key says. */
export interface ShardValue {
  /** The node that shall have it; empty where none is chosen. */
  readonly target: string;
  /** The node that has it; empty between two owners. */
  readonly current: string;
  /** In their order, without the `f=` before each. Those that nobody here knows are kept. */
  readonly flags: readonly string[];
}

/** Keeps GoVerse's leader from choosing another target, whatever happens to the present one. */
const pinFlag = 'pinned';

const markPrefix = 'millrace-';
const markId = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

/** What may stand between two commas as a node's address. */
const nodeAddress = /^[A-Za-z0-9.:[\]_-]+$/;

/**
 * Parses `target,current[,f=flag…]` as GoVerse does: a bare target is legal, empty parts are, and flags may stand anywhere.
 *
 * `undefined` where there are more than two parts that are no flags: a rewrite would lose what the others mean.
 */
export function parseShard(text: string): ShardValue | undefined {
  const parts = text.split(',').map((part) => part.trim());
  const [target = '', current = '', ...others] = parts.filter((part) => !part.startsWith('f='));
  return others.some((part) => part !== '')
    ? undefined
    : { target, current, flags: flagsOf(parts) };
}

function flagsOf(parts: readonly string[]): string[] {
  return parts
    .filter((part) => part.startsWith('f=') && part !== 'f=')
    .map((part) => part.slice(2));
}

/** @throws RangeError where an address would end up in another part of the value */
export function formatShard({ target, current, flags }: ShardValue): string {
  for (const address of [target, current]) {
    if (address !== '' && !isNodeAddress(address)) {
      throw new RangeError('that is no address of a node');
    }
  }
  return [target, current, ...flags.map((flag) => `f=${flag}`)].join(',');
}

/** Whether a shard can be given to it: a comma or a blank would make another value of the key. */
export function isNodeAddress(text: string): boolean {
  return nodeAddress.test(text);
}

export function isPinned({ flags }: ShardValue): boolean {
  return flags.includes(pinFlag);
}

/** The ids of the hand-overs that pinned this shard, those included whose pin somebody has taken off since. */
export function marksOf({ flags }: ShardValue): string[] {
  return flags
    .filter((flag) => flag.startsWith(markPrefix))
    .map((flag) => flag.slice(markPrefix.length));
}

/**
 * Whose the pin is. One without a mark is somebody else's. `ours` includes a mark without a pin: there is something of ours
 * to take off.
 */
export function pinOf(value: ShardValue): 'none' | 'ours' | 'foreign' {
  if (marksOf(value).length > 0) {
    return 'ours';
  }
  return isPinned(value) ? 'foreign' : 'none';
}

/**
 * The value with a pin that carries the mark of this hand-over; `undefined` where somebody else has pinned it, because a
 * mark beside their pin would make it ours to take off.
 *
 * @throws RangeError where the id could not be told from the rest of the value
 */
export function withPin(value: ShardValue, id: string): ShardValue | undefined {
  if (!markId.test(id)) {
    throw new RangeError('that is no id of a hand-over');
  }
  return pinOf(value) === 'foreign'
    ? undefined
    : { ...value, flags: [...new Set([...value.flags, pinFlag, `${markPrefix}${id}`])] };
}

/** The value without the mark of this hand-over, and without the pin once no mark is left that would want it. */
export function withoutPin(value: ShardValue, id: string): ShardValue {
  const mark = `${markPrefix}${id}`;
  if (!value.flags.includes(mark)) {
    return value;
  }
  const left = { ...value, flags: value.flags.filter((flag) => flag !== mark) };
  return marksOf(left).length > 0
    ? left
    : { ...left, flags: left.flags.filter((flag) => flag !== pinFlag) };
}
