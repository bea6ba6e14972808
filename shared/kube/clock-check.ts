import { type Clock, type Instant, secondsBetween } from '#shared/kernel/instant.ts';
import { type KubeConnection, type KubeResponse, isAnsweredByItself } from './connection.ts';

/** How far a handler's clock may certainly be off the API server's, in seconds. */
export const maxSkewSeconds = 2;

/**
 * The same connection for whoever counts by the given clock: nothing is read through it while that clock is certainly
 * wrong, so that times written by one handler mean the same to the next. Writes pass; nobody comes to one without reads.
 *
 * Only what the API server answers itself counts: behind its service proxy others say the time.
 */
export function checkingClock(connection: KubeConnection, clock: Clock): KubeConnection {
  return {
    ...connection,
    async request(request) {
      const sentAt = clock();
      const response = await connection.request(request);
      if (request.method === 'GET' && isAnsweredByItself(request)) {
        checkClock(response, sentAt, clock());
      }
      return response;
    },
  };
}

function checkClock({ toldAt }: KubeResponse, sentAt: Instant, receivedAt: Instant): void {
  if (toldAt === undefined) {
    throw new Error('the answer does not say when it was given, so this clock cannot be checked');
  }
  const skew = certainSkew(toldAt, sentAt, receivedAt);
  if (Math.abs(skew) > maxSkewSeconds) {
    throw new Error(
      `this clock is at least ${Math.floor(Math.abs(skew))} s ${skew > 0 ? 'ahead of' : 'behind'} the API server's: let a time service set it`,
    );
  }
}

/**
 * How many seconds a clock is ahead of another's at least, below zero: behind it; 0 where it may be right.
 *
 * @param toldAt what the other clock said, in whole seconds, at some instant between
 */
export function certainSkew(toldAt: Instant, sentAt: Instant, receivedAt: Instant): number {
  const least = secondsBetween(toldAt, sentAt) - 1;
  const most = secondsBetween(toldAt, receivedAt);
  return Math.max(0, least) + Math.min(0, most);
}
