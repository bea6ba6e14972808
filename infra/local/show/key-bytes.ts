import * as z from 'zod';

const keyValues = z.object({ kvs: z.array(z.object({ value: z.base64() })).min(1) });

/** A key of the data plane's in etcd, as bytes: what a codec leaves out, or puts in another order, shows. */
export interface KeyBytes {
  /** The key has to be there. */
  read(): Promise<Uint8Array>;
  write(value: Uint8Array): Promise<void>;
}

export function openKeyBytes(endpoint: string, key: string): KeyBytes {
  const ask = async (what: 'range' | 'put', body: object): Promise<unknown> => {
    const answer = await fetch(new URL(`/v3/kv/${what}`, endpoint), {
      method: 'POST',
      body: JSON.stringify({ key: Buffer.from(key).toString('base64'), ...body }),
    });
    if (!answer.ok) {
      throw new Error(`etcd answers ${answer.status}`);
    }
    return answer.json();
  };
  return {
    async read() {
      const [first] = keyValues.parse(await ask('range', {})).kvs;
      return Buffer.from(first?.value ?? '', 'base64');
    },
    async write(value) {
      await ask('put', { value: Buffer.from(value).toString('base64') });
    },
  };
}
