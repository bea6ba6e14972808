import type { LetterPorts, PagePorts } from '#infra/cli/ui/ports.ts';
import type {
  Bar,
  Mark,
  Outcome,
  Standing,
  StepStory,
  TargetRow,
  TargetStory,
  Timeline,
} from '#infra/cli/ui/protocol.ts';

/** A world for the page that stands still: so many targets, and so many decisions of each. */
export interface PageWorld {
  readonly targets: number;
  readonly marks: number;
  readonly now: number;
  readonly letters?: LetterPorts;
}

const hourMs = 3_600_000;
const names = ['orders', 'carts', 'ledger', 'search', 'sessions', 'audit', 'prices', 'stock'];
const members = ['a', 'b', 'c'].map((zone, index) => `main-zone-${zone}-5f3a91c2-${index}`);

/** A target that is told of in each way there is. */
const telling: readonly (readonly [Standing, string, string | undefined, string])[] = [
  ['stuck', 'drain of main-zone-b-1 is stuck', 'a quorum of 2 of 3 members', 'QuorumTooSmall'],
  ['stuck', 'backups: the repository belongs to another database', undefined, 'RepositoryOfOthers'],
  ['stuck', 'nightly missed two slots', 'a backup that ends well', 'BackupsMissed'],
  ['working', 'no step has looked at it yet', undefined, 'NeverLooked'],
  ['working', 'main-zone-a-0 is leaving', 'its pod to be gone', 'AwaitingPodGone'],
  ['paused', 'a backup is due soon', 'the slot of 02:00', 'AwaitingSlot'],
];

export function pagePorts(world: PageWorld): PagePorts {
  const rows = Array.from({ length: world.targets }, (_, place) => rowOf(place, world.now));
  const known = new Set(rows.map(({ id }) => id));
  return {
    session: {
      server: 'https://10.0.0.1:6443',
      context: 'prod-eu',
      namespaces: [],
      canWrite: world.letters?.replay !== undefined,
      archive: 's3://millrace-archive',
      version: '0.1.0',
    },
    targets: { rows, health: { kind: 'live' }, follow: () => () => undefined },
    story: async (id) => (known.has(id) ? storyOf(id, world.now) : undefined),
    timeline: async (id) => (known.has(id) ? timelineOf(world) : undefined),
    letters: world.letters ?? {
      list: async () => ({
        kind: 'unconfigured',
        how: 'Give `--queue-url-prefix` of the deployment.',
      }),
      preview: async () => [],
    },
  };
}

function rowOf(place: number, now: number): TargetRow {
  const name = `${names[place % names.length]}-${place}`;
  const told = telling[place];
  const since = new Date(now - (place + 1) * 7 * 60_000).toISOString();
  const conditions = (isReady: boolean) => [
    {
      type: 'Ready',
      status: isReady ? 'True' : 'False',
      reason: isReady ? 'MembersReady' : (told?.[3] ?? ''),
      message: 'as it says',
      since,
    },
    {
      type: 'Stalled',
      status: isReady ? 'False' : 'True',
      reason: isReady ? 'NothingStalled' : (told?.[3] ?? ''),
      message: 'as it says',
      since,
    },
    {
      type: 'Drained',
      status: 'True',
      reason: 'NobodyLeaves',
      message: 'no member has to leave',
      since,
    },
    {
      type: 'BackupsOnSchedule',
      status: 'True',
      reason: 'OnSchedule',
      message: 'every schedule is kept',
      since,
    },
  ];
  return {
    id: `shd/shop/${name}`,
    standing: told?.[0] ?? 'settled',
    headline: told?.[1] ?? 'all members are ready',
    ...(told?.[2] === undefined ? {} : { waitsFor: told[2] }),
    since,
    next: new Date(now + 300_000).toISOString(),
    conditions: conditions(told?.[0] !== 'stuck'),
    version: '1',
  };
}

function storyOf(id: string, now: number): TargetStory {
  const since = new Date(now - 12 * 60_000).toISOString();
  const quiet = { todo: [], notes: [] };
  const steps: StepStory[] = [
    {
      step: 'drain-step',
      standing: 'stuck',
      reason: 'QuorumTooSmall',
      says: `${members[1]} is to leave because its pool has more members than wanted. Without it too few healthy members would be left to agree on anything.`,
      told: '1 of 3 members would be healthy, and a quorum needs 2',
      waitsFor: `one more healthy member: ${members[2]} does not answer`,
      since,
      todo: [
        {
          text: `see why ${members[2]} is not ready`,
          command: `kubectl describe pod ${members[2]} -n shop`,
        },
        {
          text: 'or let the member stay',
          command: `kubectl annotate pod ${members[1]} -n shop millrace.dev/drain-`,
        },
        {
          text: 'or let it go, knowing that what was committed may be lost',
          command: 'kubectl annotate shd/orders-0 -n shop millrace.dev/force-drain=7c1e2a90',
        },
      ],
      next: 'Once enough members are healthy it goes on by itself.',
      look: 'every 30 s',
      notes: [],
    },
    {
      ...quiet,
      step: 'pool-pods',
      standing: 'settled',
      reason: 'MembersReady',
      says: 'Three members are wanted and three are there.',
      next: 'It looks when something changes.',
    },
    {
      ...quiet,
      step: 'backup-trigger',
      standing: 'working',
      reason: 'AwaitingDrain',
      says: 'The slot of 02:00 of nightly is due and waits until nobody leaves.',
      waitsFor: 'the drain to end',
      since,
      next: 'It starts the backup once nobody leaves, or gives the slot up.',
      look: 'every 10 s',
    },
    {
      ...quiet,
      step: 'etcd-cleanup',
      standing: 'settled',
      reason: 'TopologyClean',
      says: 'Every record in the topology has its pod.',
      next: 'It looks when a member leaves.',
    },
  ];
  return {
    id,
    standing: 'stuck',
    summary: `A person is needed: the drain of ${members[1]} is stuck (for 12 min).`,
    notes: [],
    database: { id: 'mdb/shop/main', standing: 'settled', brief: 'nothing to do' },
    members: [{ pod: members[1] ?? '', says: 'is leaving: draining' }],
    steps,
    conditions: rowOf(0, now).conditions,
  };
}

const lanes = ['drain-step', 'pool-pods', 'backup-trigger', 'etcd-cleanup'];
const mostly: readonly Outcome[] = [
  'waiting',
  'settled',
  'settled',
  'waiting',
  'acting',
  'settled',
  'waiting',
  'blocked',
  'failed',
  'lostRace',
  'event',
  'settled',
];

/** Bursts, as a target lives: quiet for hours, then many looks in a minute. */
function timelineOf({ marks: count, now }: PageWorld): Timeline {
  const span = 7 * 24 * hourMs;
  let seed = 42;
  const random = (): number => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    return seed / 2 ** 32;
  };
  const marks = Array.from({ length: count }, (): Mark => {
    const burst = Math.floor(random() * 40) / 40;
    const at = now - span * (1 - burst * 0.98) + random() * 0.02 * span * random();
    const lane = Math.floor(random() * lanes.length);
    const outcome = mostly[Math.floor(random() ** 1.6 * mostly.length)] ?? 'settled';
    const isAbout = lane === 0 && random() < 0.6;
    return {
      at: Math.min(at, now),
      lane,
      ...(isAbout ? { member: lanes.length + 1 + Math.floor(random() * members.length) } : {}),
      outcome,
      reason: outcome === 'blocked' ? 'QuorumTooSmall' : 'Settling',
      message: `${members[0]} can go: the gates hold since 4 s, and have to for 5 s`,
      effects:
        outcome === 'acting' ? ['advance to acknowledged', `deleteObject Pod ${members[0]}`] : [],
    };
  }).toSorted((one, other) => one.at - other.at);
  const bars = Array.from({ length: 14 }, (_, night): Bar => ({
    lane: lanes.length,
    from: now - (14 - night) * 12 * hourMs,
    to: now - (14 - night) * 12 * hourMs + (0.6 + random()) * hourMs,
    kind: night === 9 ? 'failed' : 'succeeded',
    title: 'nightly, full',
  }));
  return {
    from: now - span,
    to: now,
    lanes: [
      ...lanes.map((id) => ({ id, kind: 'step' as const })),
      { id: 'backups', kind: 'backups' },
      ...members.map((id) => ({ id, kind: 'member' as const })),
    ],
    marks,
    bars: [
      ...bars,
      {
        lane: lanes.length,
        from: now - 0.5 * hourMs,
        kind: 'running',
        title: 'hourly, incremental',
      },
      { lane: 0, from: now - 12 * 60_000, kind: 'state', title: 'draining' },
    ],
    due: [
      { lane: 0, at: now + 25_000, title: 'looks again' },
      { lane: lanes.length, at: now + 3 * hourMs, title: 'nightly' },
    ],
    gaps: [],
  };
}
