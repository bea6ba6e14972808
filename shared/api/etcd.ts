import * as z from 'zod';
import { type ApiRule, isSecretName, label, text, withRules } from './fields.ts';

const isEndpoint: ApiRule = {
  rule: "isURL(self) && self.matches('^https?://([-A-Za-z0-9.]+|[[][0-9A-Fa-f:]+[]]):[0-9]+$')",
  message:
    'write an endpoint as http://host:port or https://host:port, with nothing after the port',
};
const oneScheme: ApiRule = {
  rule: "self.all(endpoint, endpoint.startsWith('https://')) || self.all(endpoint, endpoint.startsWith('http://'))",
  message: 'give all endpoints with http or all with https',
};
const oneWayToTopology: ApiRule = {
  rule: 'has(self.endpoints) != has(self.service)',
  message:
    'give either endpoints, reached directly, or service, reached through the API server: one of them, not both',
};
const encryptedWhereAsked: ApiRule = {
  rule: "!has(self.tlsSecret) || !has(self.endpoints) || self.endpoints.all(endpoint, endpoint.startsWith('https://'))",
  message: 'give https endpoints where there is a tlsSecret: nothing would be encrypted otherwise',
};
/** A Service, as an object names it. */
export const serviceSchema = z
  .object({
    namespace: label(63, 'Its namespace; that of this object when not given.').optional(),
    name: label(63, 'Its name.'),
    port: z.int().min(1).max(65_535).meta({ description: 'Its port.' }),
  })
  .meta({
    description:
      "A Service that is reached through the API server's service proxy, so that a step needs no network path to it.",
  });

/** Rules over an object with {@link etcdFields}. */
export const etcdRules: readonly ApiRule[] = [oneWayToTopology, encryptedWhereAsked];

/**
 * How an etcd is reached, and what is shown to it.
 *
 * @param whose `the global topology store's etcd`
 */
export function etcdFields(whose: string) {
  return {
    endpoints: z
      .array(text(253, 'http(s)://host:port', isEndpoint))
      .min(1)
      .max(9)
      .optional()
      .meta({
        description: `Addresses of the members of ${whose}.`,
        'x-kubernetes-list-type': 'atomic',
        ...withRules(oneScheme),
      }),
    service: serviceSchema.optional().meta({ description: `The Service before ${whose}.` }),
    tlsSecret: text(
      253,
      'Name of a Secret in this namespace with `ca.crt`, and `tls.crt` and `tls.key` for a client certificate.',
      isSecretName,
    ).optional(),
    authSecret: text(
      253,
      'Name of a Secret in this namespace with `username` and `password` of a user of etcd.',
      isSecretName,
    ).optional(),
  };
}
