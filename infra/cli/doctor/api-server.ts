import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import * as z from 'zod';
import { describeError } from '#shared/kernel/errors.ts';
import { type Instant, wallClock } from '#shared/kernel/instant.ts';
import { readText } from '#shared/http/connection.ts';
import { explainFailure } from '#shared/kube/explain.ts';
import { certainSkew, maxSkewSeconds } from '#shared/kube/clock-check.ts';
import type { KubeAccess, KubeConnection } from '#shared/kube/connection.ts';
import type { Cluster } from '../cluster.ts';
import { type Check, failed, ok, skipped } from './check.ts';

const timeoutMs = 10_000;

/** The version takes some hundred. */
const maxVersionBytes = 64 * 1024;

/** What one request to the API server showed beyond its body. */
interface Probe {
  readonly status: number;
  /** From the Date header; not a number where there is none. */
  readonly toldAt: Instant;
  readonly sentAt: Instant;
  readonly receivedAt: Instant;
  readonly isEncrypted: boolean;
  /** Whether it is an API server that answered. */
  readonly isOfApiServer: boolean;
}

/** Reachability, TLS, sign-in and clock. A server that is not reached leaves the rest unjudged. */
export async function checkApiServer({
  access,
  connection,
}: Pick<Cluster, 'access' | 'connection'>): Promise<readonly Check[]> {
  let probe: Probe;
  try {
    probe = await askVersion(access);
  } catch (error) {
    const problem = isTlsProblem(error)
      ? failed(
          'API server certificate',
          describeError(error),
          "the kubeconfig's certificate authority must be the one that signed the server's certificate",
        )
      : failed(
          'API server reachable',
          describeError(explainFailure(error, access)),
          "check the server's address in the kubeconfig, and the network on the way to it",
        );
    return [problem];
  }
  if (!probe.isOfApiServer) {
    return [
      failed(
        'API server reachable',
        `what answers at ${access.server} is no API server`,
        "check the server's address in the kubeconfig",
      ),
    ];
  }
  return [
    ok('API server reachable', access.server),
    probe.isEncrypted
      ? ok('API server certificate', 'it is the one the kubeconfig expects')
      : failed(
          'API server certificate',
          'the connection is not encrypted',
          'use an https:// server',
        ),
    await checkSignIn(probe, connection),
    checkClock(probe),
  ];
}

const reviewSchema = z.looseObject({
  status: z.looseObject({ userInfo: z.looseObject({ username: z.string() }) }),
});

/** Asks the API server who the caller is: one without credentials gets answers too, as nobody. */
async function checkSignIn({ status }: Probe, connection: KubeConnection): Promise<Check> {
  const name = 'signed in';
  const advice = 'renew the credentials of the kubeconfig';
  if (status === 401) {
    return failed(name, 'the API server refuses the credentials', advice);
  }
  const answer = await connection.request({
    method: 'POST',
    path: '/apis/authentication.k8s.io/v1/selfsubjectreviews',
    body: { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' },
  });
  const review = reviewSchema.safeParse(answer.body);
  if (answer.status !== 201 || !review.success) {
    return skipped(name, `the API server answers ${answer.status} to the question who this is`);
  }
  const { username } = review.data.status.userInfo;
  return username === 'system:anonymous'
    ? failed(name, 'the kubeconfig has no credentials the API server knows', advice)
    : ok(name, `as ${username}`);
}

function checkClock({ toldAt, sentAt, receivedAt }: Probe): Check {
  if (Number.isNaN(toldAt)) {
    return skipped('clock', 'the API server did not say the time');
  }
  const skew = certainSkew(toldAt, sentAt, receivedAt);
  return Math.abs(skew) <= maxSkewSeconds
    ? ok('clock', "this clock and the API server's agree")
    : failed(
        'clock',
        `this clock is ${Math.floor(Math.abs(skew))} s ${skew < 0 ? 'behind' : 'ahead of'} the API server's`,
        'let a time service set this clock: steps read nothing where it is wrong',
      );
}

async function askVersion(access: KubeAccess): Promise<Probe> {
  const { token, certificate, key } = await access.credentials();
  const url = new URL(access.server);
  const sentAt = wallClock();
  const transport = url.protocol === 'http:' ? http : https;
  const request = transport.get(new URL('version', `${access.server.replace(/\/$/, '')}/`), {
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
    ...(access.ca === undefined ? {} : { ca: access.ca }),
    ...(certificate === undefined ? {} : { cert: certificate }),
    ...(key === undefined ? {} : { key }),
    signal: AbortSignal.timeout(timeoutMs),
  });
  const [response] = (await once(request, 'response')) as [http.IncomingMessage];
  const body = await readText(response, maxVersionBytes);
  return {
    status: response.statusCode ?? 0,
    toldAt: Date.parse(response.headers.date ?? '') as Instant,
    sentAt,
    receivedAt: wallClock(),
    isEncrypted: url.protocol === 'https:',
    // Who is not known, or may not ask for the version, gets a Status.
    isOfApiServer: /"gitVersion"|"kind": ?"Status"/.test(body),
  };
}

function isTlsProblem(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return /CERT|ERR_TLS|SELF_SIGNED|UNABLE_TO_VERIFY|UNABLE_TO_GET_ISSUER/.test(code);
}
