import { describe, expect, test } from 'vitest';
import { Gate, safeHeaders } from '#infra/cli/ui/gate.ts';

const gate = new Gate(4711);
const host = '127.0.0.1:4711';
const json = 'application/json; charset=utf-8';

describe('who may ask', () => {
  test.each([
    [host, true],
    ['localhost:4711', true],
    ['millrace.example:4711', false],
    ['127.0.0.1', false],
    ['127.0.0.1:80', false],
    [undefined, false],
  ])('a request to the host %s is for this server: %s', (name, isOurs) => {
    expect(gate.isForUs(name === undefined ? {} : { host: name })).toBe(isOurs);
  });

  test('the token is taken as a whole or not at all', () => {
    expect(gate.isToken(gate.token)).toBe(true);
    expect(gate.isToken(gate.token.slice(1))).toBe(false);
    expect(gate.isToken('')).toBe(false);
  });

  test('the token is 256 bits, and of each run its own', () => {
    expect(Buffer.from(gate.token, 'base64url')).toHaveLength(32);
    expect(new Gate(4711).token).not.toBe(gate.token);
  });

  test('the cookie signs in, and neither the token nor the cookie of another run does', () => {
    const [cookie] = gate.cookie.split(';');
    const [other] = new Gate(4711).cookie.split(';');

    expect(gate.isSignedIn({ cookie: `a=b; ${cookie}` })).toBe(true);
    expect(gate.isSignedIn({ cookie: `millrace-4711=${gate.token}` })).toBe(false);
    expect(gate.isSignedIn({ cookie: other ?? '' })).toBe(false);
    expect(gate.isSignedIn({})).toBe(false);
  });

  test('scripts and other sites never get the cookie', () => {
    expect(gate.cookie).toMatch(/; HttpOnly; SameSite=Strict$/);
  });

  test.each([
    ['cross-site', false],
    ['same-site', false],
    ['same-origin', true],
    ['none', true],
  ])('a request that the browser calls %s is from our site: %s', (site, isOurs) => {
    expect(gate.isFromOurSite({ 'sec-fetch-site': site })).toBe(isOurs);
  });

  test('a write says that it comes from this page, as JSON', () => {
    const page = { host, origin: `http://${host}`, 'content-type': json };

    expect(gate.isFromOurPage(page)).toBe(true);
    expect(gate.isFromOurPage({ host, 'content-type': json })).toBe(false);
    expect(gate.isFromOurPage({ ...page, origin: 'http://127.0.0.1:4712' })).toBe(false);
    expect(gate.isFromOurPage({ ...page, origin: 'null' })).toBe(false);
    expect(gate.isFromOurPage({ ...page, 'content-type': 'text/plain' })).toBe(false);
  });

  test('the policy allows nothing from elsewhere and nothing inline', () => {
    const policy = safeHeaders['content-security-policy'] ?? '';

    expect(policy).toContain("default-src 'none'");
    expect(policy).not.toMatch(/unsafe|https?:|\*|data:/);
  });
});
