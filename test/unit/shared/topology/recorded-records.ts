/** Records as a real Multigres wrote them to etcd: values are base64 of the stored bytes. */
export const recordedPoolers = {
  /** The leader of a three-cell shard. */
  primary: {
    key: '/multigres/zone1/poolers/multipooler-zone1-p-00000001/Pooler',
    value:
      'ChUIARIFem9uZTEaCnAtMDAwMDAwMDESGgoIcG9zdGdyZXMSB2RlZmF1bHQaBTAtaW5mMAFCCWxvY2FsaG9zdEoKCgRncnBjEPekAUoKCgRodHRwEPakAUoOCghwb3N0Z3JlcxCUpQFKEAoKcGdiYWNrcmVzdBCVpQFSIi9ydW4vbWcvcnVuL2RhdGEvcG9vbGVyX3AtMDAwMDAwMDFaKi9ydW4vbWcvcnVuL2RhdGEvcG9vbGVyX3AtMDAwMDAwMDEvcGdfZGF0YWIfCAISDXBvb2xlciBhY3RpdmUaDAjE8YXYBhD2i4iBAWoGCAESAggB',
  },
  /** A follower. */
  replica: {
    key: '/multigres/zone2/poolers/multipooler-zone2-p-00000002/Pooler',
    value:
      'ChUIARIFem9uZTIaCnAtMDAwMDAwMDISGgoIcG9zdGdyZXMSB2RlZmF1bHQaBTAtaW5mMAJCCWxvY2FsaG9zdEoKCgRncnBjENulAUoKCgRodHRwENqlAUoOCghwb3N0Z3JlcxD4pQFKEAoKcGdiYWNrcmVzdBD5pQFSIi9ydW4vbWcvcnVuL2RhdGEvcG9vbGVyX3AtMDAwMDAwMDJaKi9ydW4vbWcvcnVuL2RhdGEvcG9vbGVyX3AtMDAwMDAwMDIvcGdfZGF0YWIfCAISDXBvb2xlciBhY3RpdmUaDAjF8YXYBhCyme7hAWoCCAI=',
  },
  /** A follower after a graceful stop. */
  stopped: {
    key: '/multigres/zone3/poolers/multipooler-zone3-p-00000003/Pooler',
    value:
      'ChUIARIFem9uZTMaCnAtMDAwMDAwMDMSGgoIcG9zdGdyZXMSB2RlZmF1bHQaBTAtaW5mOAFCCWxvY2FsaG9zdEoKCgRncnBjEL+mAUoKCgRodHRwEL6mAUoOCghwb3N0Z3JlcxDcpgFKEAoKcGdiYWNrcmVzdBDdpgFSIi9ydW4vbWcvcnVuL2RhdGEvcG9vbGVyX3AtMDAwMDAwMDNaKi9ydW4vbWcvcnVuL2RhdGEvcG9vbGVyX3AtMDAwMDAwMDMvcGdfZGF0YWIhCAQSD3Bvb2xlciBzaHV0ZG93bhoMCL/4hdgGEP63iu8B',
  },
  /** A follower whose process was killed: the record stays as it was. */
  killed: {
    key: '/multigres/zone1/poolers/multipooler-zone1-p-00000001/Pooler',
    value:
      'ChUIARIFem9uZTEaCnAtMDAwMDAwMDESGgoIcG9zdGdyZXMSB2RlZmF1bHQaBTAtaW5mMAJCCWxvY2FsaG9zdEoKCgRodHRwEPakAUoOCghwb3N0Z3JlcxCUpQFKEAoKcGdiYWNrcmVzdBCVpQFKCgoEZ3JwYxD3pAFSIi9ydW4vbWcvcnVuL2RhdGEvcG9vbGVyX3AtMDAwMDAwMDFaKi9ydW4vbWcvcnVuL2RhdGEvcG9vbGVyX3AtMDAwMDAwMDEvcGdfZGF0YWIfCAISDXBvb2xlciBhY3RpdmUaDAip+YXYBhCPq4qkAmoCCAI=',
  },
} as const;

/** Where the first cell keeps its records. */
export const recordedCell = {
  key: '/multigres/global/cells/zone1/Cell',
  value: 'CgV6b25lMRIPbG9jYWxob3N0OjIxMDAwGhAvbXVsdGlncmVzL3pvbmUx',
} as const;

/** The database, with a filesystem repository. */
export const recordedDatabase = {
  key: '/multigres/global/databases/postgres/Database',
  value:
    'Cghwb3N0Z3JlcxIcChoKGC9ydW4vbWcvcnVuL2RhdGEvYmFja3VwcxoFem9uZTEaBXpvbmUyGgV6b25lMyIzCgpBVF9MRUFTVF8yGAMgAiohQXQgbGVhc3QgMiBub2RlcyBtdXN0IGFja25vd2xlZGdl',
} as const;

/** Who bootstrapped the shard, and with whom. */
export const recordedClaim = {
  key: '/multigres/global/databases/postgres/default/0-inf/ShardInitClaim',
  value:
    'ChMIAxIFem9uZTIaCDk5NmtmazduEhUIARIFem9uZTIaCnAtMDAwMDAwMDISFQgBEgV6b25lMRoKcC0wMDAwMDAwMRIVCAESBXpvbmUzGgpwLTAwMDAwMDAz',
} as const;
