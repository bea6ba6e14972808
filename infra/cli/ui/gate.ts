import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

/**
 * Who may ask the page's server anything.
 *
 * It listens on this machine alone, but so does every page in this machine's browser: a site can send requests to any local
 * port, and can point its own name at 127.0.0.1 (DNS rebinding). So each request must name this server as its host, must
 * not come from another site, and must carry a cookie that was given for the printed token alone. A write must besides say
 * that it comes from this very page.
 */
export class Gate {
  /** Printed once, with the address. */
  readonly token = randomBytes(32).toString('base64url');
  /** Another secret than the token: an address that was kept somewhere does not hold the cookie. */
  readonly #session = randomBytes(32).toString('base64url');
  readonly #port: number;

  constructor(port: number) {
    this.#port = port;
  }

  get origin(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** The address for people, which signs in. */
  get address(): string {
    return `${this.origin}/?token=${this.token}`;
  }

  /** What a browser is given for the token. Browsers keep cookies by host and not by port, so its name has the port. */
  get cookie(): string {
    return `${this.#cookieName}=${this.#session}; Path=/; HttpOnly; SameSite=Strict`;
  }

  /** Whether the request names this server as its host. Another name is a page that made its own name point here. */
  isForUs(headers: IncomingHttpHeaders): boolean {
    return this.#hosts.includes(headers.host ?? '');
  }

  /** Whether no other site has the browser ask. Old browsers and tools do not say, and have the cookie to show. */
  isFromOurSite(headers: IncomingHttpHeaders): boolean {
    const site = headers['sec-fetch-site'];
    return site === undefined || site === 'same-origin' || site === 'none';
  }

  /** Whether a write comes from this very page. Browsers say so with each; whoever does not is refused. */
  isFromOurPage(headers: IncomingHttpHeaders): boolean {
    return (
      this.#hosts.some((host) => headers.origin === `http://${host}`) &&
      headers.origin === `http://${headers.host}` &&
      (headers['content-type'] ?? '').startsWith('application/json')
    );
  }

  isToken(text: string): boolean {
    return isSame(text, this.token);
  }

  isSignedIn(headers: IncomingHttpHeaders): boolean {
    const cookies = (headers.cookie ?? '').split(';').map((cookie) => cookie.trim());
    return cookies.some((cookie) => isSame(cookie, `${this.#cookieName}=${this.#session}`));
  }

  get #cookieName(): string {
    return `millrace-${this.#port}`;
  }

  get #hosts(): readonly string[] {
    return [`127.0.0.1:${this.#port}`, `localhost:${this.#port}`];
  }
}

/** Compares in the same time whatever is given. */
function isSame(given: string, secret: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(given), digest(secret));
}

/**
 * Set on every answer. Nothing is loaded from elsewhere, nothing runs that is not a file of this server, and no other page may
 * frame it or hold on to its window.
 */
export const safeHeaders: Readonly<Record<string, string>> = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'cache-control': 'no-store',
};
