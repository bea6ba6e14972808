/** The server's answer, or why there is none. */
export type Answer<T> =
  | { readonly kind: 'told'; readonly value: T }
  | { readonly kind: 'failed'; readonly why: string };

/** Reads something from the server. */
export function read<T>(path: string, query: Readonly<Record<string, string>>): Promise<Answer<T>> {
  return ask<T>(`${path}?${new URLSearchParams(query).toString()}`, {});
}

/** Tells the server to do something. */
export function tell<T>(path: string, order: unknown): Promise<Answer<T>> {
  return ask<T>(path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(order),
  });
}

async function ask<T>(url: string, options: RequestInit): Promise<Answer<T>> {
  try {
    const response = await fetch(url, options);
    const body: unknown = await response.json();
    return response.ok
      ? { kind: 'told', value: body as T }
      : { kind: 'failed', why: problemIn(body) ?? `the server answered with ${response.status}` };
  } catch {
    return { kind: 'failed', why: '`millrace ui` does not answer; is it still running?' };
  }
}

function problemIn(body: unknown): string | undefined {
  return typeof body === 'object' && body !== null && 'problem' in body
    ? String(body.problem)
    : undefined;
}
