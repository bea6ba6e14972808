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
  backupRequest: { jobId: '20261121-105654.409539_multipooler-zone2-p-00000002' },
  runningJob: {
    jobId: '20261121-105654.409539_multipooler-zone2-p-00000002',
    jobType: 'JOB_TYPE_BACKUP',
    status: 'JOB_STATUS_RUNNING',
    database: 'postgres',
    tableGroup: 'default',
    shard: '0-inf',
  },
  completedJob: {
    jobId: '20261121-105654.409539_multipooler-zone2-p-00000002',
    jobType: 'JOB_TYPE_BACKUP',
    status: 'JOB_STATUS_COMPLETED',
    database: 'postgres',
    tableGroup: 'default',
    shard: '0-inf',
    backupId: '20261121-105654F',
  },
  backups: {
    backups: [
      {
        backupId: '20261121-105654F',
        database: 'postgres',
        tableGroup: 'default',
        shard: '0-inf',
        type: 'full',
        status: 'BACKUP_STATUS_COMPLETE',
        backupSizeBytes: '39626082',
        multipoolerServiceId: 'p-00000002',
        routingRole: 'ROUTING_ROLE_REPLICA',
        startLsn: '0/6000028',
        stopLsn: '0/60019B0',
        pgVersion: '17.11',
        startTimestamp: '2026-11-21T10:56:54Z',
        stopTimestamp: '2026-11-21T10:56:56Z',
        jobId: '20261121-105654.409539_multipooler-zone2-p-00000002',
      },
    ],
  },
} as const;
