/** What a failure is recognised by, what is said instead of it, and what somebody has to do. */
interface Known {
  readonly sign: RegExp;
  /** Absent: the failure's own words are plain, and the same each time. */
  readonly says?: string;
  readonly advice: string;
}

/**
 * What TLS, gRPC, and etcd's users and storage say when something has to be set right. The texts of TLS hold the number of
 * a thread, and others a duration: a condition's message would be another one at each look.
 */
const knownFailures: readonly Known[] = [
  {
    sign: /alert certificate required/i,
    says: 'it asks for a client certificate, and there is none',
    advice: 'put tls.crt and tls.key into the tlsSecret',
  },
  {
    sign: /alert certificate (expired|revoked)/i,
    says: 'it refuses the client certificate as expired or revoked',
    advice: 'renew tls.crt and tls.key in the tlsSecret',
  },
  {
    sign: /alert (unknown ca|bad certificate|certificate unknown|unsupported certificate)/i,
    says: 'it refuses the client certificate',
    advice: 'sign tls.crt of the tlsSecret for client use by the authority that etcd trusts',
  },
  {
    sign: /unable to verify|self[- ]signed certificate|unable to get (local )?issuer/i,
    says: 'its certificate is not of the authority in ca.crt',
    advice: 'put the authority that signed it into ca.crt of the tlsSecret',
  },
  {
    sign: /certificate has expired|certificate is not yet valid/i,
    says: 'its certificate is not valid at this time',
    advice: 'renew the certificate of etcd',
  },
  {
    sign: /does not match certificate's altnames/i,
    says: 'its certificate is for other names than this address',
    advice: 'name an address that is in the certificate of etcd, or make one for this address',
  },
  {
    sign: /wrong version number|packet length too long|http\/0\.9/i,
    says: 'it does not speak TLS',
    advice: 'give its address with http, or turn TLS on',
  },
  {
    sign: /authentication failed/i,
    advice: 'correct username and password in the authSecret',
  },
  {
    sign: /user name is empty|unauthenticated/i,
    advice: 'name an authSecret with a user of this etcd',
  },
  {
    sign: /permission denied/i,
    advice: 'grant the role of the user what the README of the step names',
  },
  {
    sign: /database space exceeded/i,
    advice: 'compact and defragment this etcd, or raise its quota, and disarm the alarm NOSPACE',
  },
  {
    sign: /required revision has been compacted/i,
    advice: 'nothing: it was compacted between two pages, and all is read anew',
  },
  {
    sign: /etcdserver: (request timed out|no leader)|leader changed/i,
    advice: 'see that most members of this etcd run and reach each other',
  },
  {
    sign: /deadline exceeded|^no answer within/i,
    says: 'no answer in time',
    advice: 'see that it runs, has a quorum, and is reachable from here',
  },
];

/** One line about a failed request, with what has to be done where that is known. The same failure has the same line. */
export function etcdWords(message: string): string {
  const known = knownFailures.find(({ sign }) => sign.test(message));
  const [line = ''] = message.split('\n');
  const said = known?.says ?? line.replace(/ Resolution note: ?$/, '').trimEnd();
  return known === undefined ? said : `${said} (${known.advice})`;
}
