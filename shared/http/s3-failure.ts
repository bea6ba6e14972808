import * as z from 'zod';

/** How a request failed. */
export type Failure =
  /** The server answered: its status, its error code where it gave one, and the bucket's region where it named one. */
  | {
      readonly kind: 'answer';
      readonly status: number;
      readonly code: string;
      readonly region: string | null;
    }
  /** There was nobody to sign in as. */
  | { readonly kind: 'refused'; readonly why: string }
  /** No answer, or none that could be understood. */
  | { readonly kind: 'unknown'; readonly why: string };

const region = z.string().regex(/^[a-z0-9-]{1,40}$/);

/** What the SDK makes of an answer that is no success. Codes are single words; anything else is not repeated. */
const answeredSchema = z.object({
  name: z
    .string()
    .regex(/^[A-Za-z]{1,64}$/)
    .catch(''),
  $metadata: z.object({ httpStatusCode: z.int() }),
  Region: region.optional().catch(undefined),
  $response: z
    .object({ headers: z.object({ 'x-amz-bucket-region': region.optional().catch(undefined) }) })
    .optional()
    .catch(undefined),
});

/** What Node and the SDK call what went wrong below HTTP: `ECONNREFUSED`, `TimeoutError`. */
const brokenSchema = z.object({
  code: z
    .string()
    .regex(/^[A-Z][A-Z0-9_]{1,40}$/)
    .optional()
    .catch(undefined),
  name: z
    .string()
    .regex(/^[A-Za-z]{1,64}$/)
    .catch('Error'),
});

/** Reads an error of the SDK. No text of a server, and none of an error, is repeated: it may quote what was sent. */
export function failureOf(error: unknown): Failure {
  const answered = answeredSchema.safeParse(error);
  if (answered.success) {
    const { name, $metadata, Region, $response } = answered.data;
    return {
      kind: 'answer',
      status: $metadata.httpStatusCode,
      // What the SDK calls an answer without a code.
      code: /^(Unknown|UnknownError|Error)$/.test(name) ? '' : name,
      region: $response?.headers['x-amz-bucket-region'] ?? Region ?? null,
    };
  }
  const broken = brokenSchema.safeParse(error);
  const { code, name } = broken.success ? broken.data : { code: undefined, name: 'Error' };
  if (name === 'CredentialsProviderError') {
    return { kind: 'refused', why: 'this process has no credentials of its own' };
  }
  return { kind: 'unknown', why: `no answer that could be understood (${code ?? name})` };
}
