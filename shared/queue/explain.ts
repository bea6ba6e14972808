/** An answer of SQS that is a refusal: nothing of what was asked for was done, unless the server itself failed. */
export class QueueRefusal extends Error {
  /** SQS's word for it: `QueueDoesNotExist`. */
  readonly word: string;
  /** Whether asking again will be refused again. */
  readonly isLasting: boolean;

  constructor(message: string, word: string, status: number) {
    super(message);
    this.name = 'QueueRefusal';
    this.word = word;
    this.isLasting = status < 500 && status !== 429 && !passing.test(word);
  }
}

/** Words for a refusal that passes by itself, whatever its status. */
const passing = /Throttl|TooManyRequests|RequestLimitExceeded|SlowDown|RequestTimeout/;

/** Where was sent to, and as whom. */
export interface Sent {
  /** `https://sqs.eu-west-1.amazonaws.com/123456789012/millrace-prod-drain-step` */
  readonly queueUrl: string;
  /** The host that was asked. */
  readonly host: string;
  readonly region: string;
  /** What was asked for, where it was not to send: `sqs:ReceiveMessage`. */
  readonly action?: string;
}

/**
 * What is wrong and which setting to look at, for a refusal of SQS; `undefined` where that is not known.
 *
 * @param type the word that SQS has for it, `QueueDoesNotExist`
 */
export function explainRefusal(
  type: string,
  { queueUrl, region, action }: Sent,
): string | undefined {
  const queue = queueUrl.replace(/^.*\//, '');
  const place = `account and region in MILLRACE_QUEUE_URL_PREFIX (${queueUrl.slice(0, -queue.length)})`;
  switch (type) {
    case 'QueueDoesNotExist':
    case 'AWS.SimpleQueueService.NonExistentQueue':
      return `there is no queue ${queue}: check MILLRACE_STAGE, and ${place}`;
    case 'AccessDenied':
    case 'AccessDeniedException':
      return action === undefined
        ? `not allowed to send to ${queue}: name this sender in queue-senders of the stack, and check the ${place}`
        : `not allowed to ask for ${action} of ${queue}: allow it to this identity, and check the ${place}`;
    case 'SignatureDoesNotMatch':
    case 'InvalidSignatureException':
    case 'IncompleteSignature':
      return `the signature is not taken: AWS_REGION is ${region}, which must be the queues’ region, and check the secret key`;
    case 'InvalidClientTokenId':
    case 'UnrecognizedClientException':
    case 'InvalidAccessKeyId':
      return 'AWS does not know the credentials: check that they exist, and are of the queues’ partition';
    case 'ExpiredToken':
    case 'ExpiredTokenException':
      return 'the credentials of AWS have ended: see why what renews them does not';
    case 'CredentialsProviderError':
      return 'there are no credentials of AWS: sign in, and set AWS_PROFILE, or the variables that name them';
    default:
      return undefined;
  }
}

/** The same for a server that gave no answer. What Node says stands behind. */
export function explainSilence(error: unknown, { host }: Sent): unknown {
  if (!(error instanceof Error) || !('code' in error)) {
    return error;
  }
  const code = String(error.code);
  const where = 'check MILLRACE_QUEUE_URL_PREFIX, or MILLRACE_QUEUE_ENDPOINT where that is given';
  const what = /^(ENOTFOUND|EAI_AGAIN)$/.test(code)
    ? `the name ${host} does not resolve`
    : /^(ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|ETIMEDOUT)$/.test(code)
      ? `nothing answers for the queues at ${host}`
      : undefined;
  return what === undefined
    ? error
    : new Error(`${what}: ${where} (${error.message === '' ? code : error.message})`, {
        cause: error,
      });
}
