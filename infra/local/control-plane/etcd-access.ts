import * as z from 'zod';

/** What a stand-in has to know of an etcd besides one address: nothing, where that is a plain one. PEM and plain text. */
export const etcdAccessSchema = z
  .strictObject({
    /** Further members of the same etcd. */
    otherEndpoints: z.array(z.url()).default([]),
    ca: z.string().optional(),
    certificate: z.string().optional(),
    key: z.string().optional(),
    username: z.string().optional(),
    password: z.string().optional(),
  })
  .prefault({});

export type EtcdAccess = z.infer<typeof etcdAccessSchema>;
