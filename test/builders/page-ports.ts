import type { LetterPorts, PagePorts } from '#infra/cli/ui/ports.ts';
import type {
  Attention,
  Bar,
  Mark,
  Outcome,
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
const telling: readonly (readonly [Attention, string, string | undefined, string])[] = [
  ['person', 'drain of main-zone-b-1 is stuck', 'a quorum of 2 of 3 members', 'QuorumTooSmall'],
  [
    'person',
    'backups: the repository belongs to another database',
    undefined,
    'RepositoryOfOthers',
  ],
  ['person', 'nightly missed two slots', 'a backup that ends well', 'BackupsMissed'],
  ['unseen', 'no step has looked at it yet', undefined, 'NeverLooked'],
  ['working', 'main-zone-a-0 is leaving', 'its pod to be gone', 'AwaitingPodGone'],
  ['waiting', 'a backup is due soon', 'the slot of 02:00', 'AwaitingSlot'],
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
    attention: told?.[0] ?? 'settled',
    headline: told?.[1] ?? 'all members are ready',
    ...(told?.[2] === undefined ? {} : { waitsFor: told[2] }),
    since,
    next: new Date(now + 300_000).toISOString(),
    conditions: conditions(told?.[0] !== 'person'),
    version: '1',
  };
}

function storyOf(id: string, now: number): TargetStory {
  const since = new Date(now - 12 * 60_000).toISOString();
  const steps: StepStory[] = [
    {
      step: 'drain-step',
      attention: 'person',
      reason: 'QuorumTooSmall',
      says: `Member ${members[1]} has to leave, and its drain has passed its deadline of 5m: without it 1 of 3 members would be healthy, and a quorum needs 2.`,
      waitsFor: `one more healthy member: ${members[2]} does not answer since 20 min`,
      since,
      unblock: [
        `see why ${members[2]} is not ready: \`kubectl describe pod ${members[2]} -n shop\``,
        'or let the member stay: `kubectl annotate pod main-zone-b-5f3a91c2-1 millrace.dev/drain- -n shop`',
        'or, knowing that commits may be lost, let it go: `kubectl annotate shd orders-0 millrace.dev/force-drain=7c1e… -n shop`',
      ],
      next: 'it looks again when a member changes, and at the latest',
      nextAt: new Date(now + 25_000).toISOString(),
    },
    {
      step: 'backup-trigger',
      attention: 'waiting',
      reason: 'AwaitingDrain',
      says: 'The slot of 02:00 of nightly is due and waits until nobody leaves.',
      waitsFor: 'the drain to end',
      since,
      unblock: [],
      next: 'it gives the slot up',
      nextAt: new Date(now + 48 * 60_000).toISOString(),
    },
    {
      step: 'pool-pods',
      attention: 'settled',
      reason: 'MembersReady',
      says: 'Three members are wanted and three are there.',
      unblock: [],
    },
    {
      step: 'etcd-cleanup',
      attention: 'settled',
      reason: 'TopologyClean',
      says: 'Every record in the topology has its pod.',
      unblock: [],
      nextAt: new Date(now + 9 * 60_000).toISOString(),
    },
  ];
  return {
    id,
    attention: 'person',
    headline: `the drain of ${members[1]} is stuck and needs a decision of yours`,
    notes: ['Its Database `mdb/shop/main` is paused: every step looks, none acts.'],
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
