/** Answers of a real multiadmin about a three-cell shard, shortened to one item a list where all are alike. */
export const recordedAnswers = {
  cells: { names: ['zone1', 'zone2', 'zone3'] },
  cell: {
    cell: { name: 'zone1', serverAddresses: ['localhost:21000'], root: '/multigres/zone1' },
  },
  databases: { names: ['postgres'] },
  database: {
    database: {
      name: 'postgres',
      backupLocation: { filesystem: { path: '/run/mg/run/data/backups' } },
      cells: ['zone1', 'zone2', 'zone3'],
      bootstrapDurabilityPolicy: {
        policyName: 'AT_LEAST_2',
        quorumType: 'QUORUM_TYPE_AT_LEAST_N',
        requiredCount: 2,
        description: 'At least 2 nodes must acknowledge',
      },
    },
  },
  gateways: {
    gateways: [
      {
        id: { component: 'MULTIGATEWAY', cell: 'zone1', name: 'f665k2xf' },
        hostname: 'localhost',
        portMap: { grpc: 21_101, http: 21_100, postgres: 21_102 },
        pidPrefix: 109,
      },
    ],
  },
  orchs: {
    orchs: [
      {
        id: { component: 'MULTIORCH', cell: 'zone1', name: '4g6zlw5c' },
        hostname: 'localhost',
        portMap: { grpc: 21_121, http: 21_120 },
      },
    ],
  },
  /** The leader first, then a follower. */
  poolers: {
    poolers: [
      {
        id: { component: 'MULTIPOOLER', cell: 'zone1', name: 'p-00000001' },
        shardKey: { database: 'postgres', tableGroup: 'default', shard: '0-inf' },
        type: 'PRIMARY',
        hostname: 'localhost',
        portMap: { grpc: 21_111, http: 21_110, pgbackrest: 21_141, postgres: 21_140 },
        poolerDir: '/run/mg/run/data/pooler_p-00000001',
        pgDataDir: '/run/mg/run/data/pooler_p-00000001/pg_data',
        lifecycleStatus: {
          status: 'LIFECYCLE_ACTIVE',
          reason: 'pooler active',
          updated: '2026-11-21T10:56:04.270665206Z',
        },
        routingState: { role: 'ROUTING_ROLE_PRIMARY', rule: { coordinatorTerm: '1' } },
      },
      {
        id: { component: 'MULTIPOOLER', cell: 'zone2', name: 'p-00000002' },
        shardKey: { database: 'postgres', tableGroup: 'default', shard: '0-inf' },
        type: 'REPLICA',
        hostname: 'localhost',
        portMap: { grpc: 21_211, http: 21_210, pgbackrest: 21_241, postgres: 21_240 },
        poolerDir: '/run/mg/run/data/pooler_p-00000002',
        pgDataDir: '/run/mg/run/data/pooler_p-00000002/pg_data',
        lifecycleStatus: {
          status: 'LIFECYCLE_ACTIVE',
          reason: 'pooler active',
          updated: '2026-11-21T10:56:05.473664690Z',
        },
        routingState: { role: 'ROUTING_ROLE_REPLICA' },
      },
    ],
  },
} as const;
