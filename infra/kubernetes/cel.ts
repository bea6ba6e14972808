/** A text in CEL. Single quotes and backslashes have no place in names and keys, so they are refused. */
export function text(value: string): string {
  if (/['\\\n]/.test(value)) {
    throw new Error(`${value} cannot stand in an expression`);
  }
  return `'${value}'`;
}

export function list(values: readonly string[]): string {
  return `[${values.map(text).join(', ')}]`;
}

/** A map from texts to expressions. */
export function map(entries: readonly (readonly [key: string, expression: string])[]): string {
  return `{${entries.map(([key, expression]) => `${text(key)}: ${expression}`).join(', ')}}`;
}

export function and(...expressions: readonly string[]): string {
  return expressions.map((expression) => `(${expression})`).join(' && ');
}

export function or(...expressions: readonly string[]): string {
  return expressions.length === 0
    ? 'false'
    : expressions.map((expression) => `(${expression})`).join(' || ');
}

/** Holds for every other operation. */
export function on(operation: 'CREATE' | 'UPDATE' | 'DELETE', expression: string): string {
  return `request.operation != ${text(operation)} || (${expression})`;
}

/** Whether a field, from the object's root, is as it was. */
export function unchanged(path: string): string {
  const optional = path.replaceAll('.', '.?');
  return `object.?${optional} == oldObject.?${optional}`;
}
