export type JsonValue = string | number | boolean | null | readonly JsonValue[] | JsonObject;

export interface JsonObject {
  readonly [key: string]: JsonValue | undefined;
}

/** A client-node type as it travels: its Dates are RFC 3339 strings in JSON. */
export type AsJson<T> = T extends Date
  ? string
  : T extends (infer Item)[]
    ? AsJson<Item>[]
    : T extends object
      ? { [K in keyof T]: AsJson<T[K]> }
      : T;
