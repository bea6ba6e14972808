import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';

/**
 * The authority that signed the certificate a Kubernetes component made for itself: it writes its own certificate and
 * after it the authority's into one PEM file, and keeps the authority's key nowhere. Throws while there is no such file.
 */
export async function readSigningAuthority(path: string): Promise<string> {
  const text = await readFile(path, 'utf8');
  const blocks = text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\n?/g) ?? [];
  const authority = blocks.find((block) => new X509Certificate(block).ca);
  if (authority === undefined) {
    throw new Error(`${path} holds no certificate authority`);
  }
  return authority;
}
