import { readFileSync } from 'node:fs';
import { SourceMap } from 'node:module';
import { fileURLToPath } from 'node:url';

/** A place in a bundle, as V8 writes it into a stack: `file:///var/task/dist/drain-step/index.mjs:3:41`. */
const placeInBundle = /(file:\/\/[^\s()]+\.mjs):(\d+):(\d+)/g;

/**
 * A stack whose places are those of the sources, where a map lies beside the bundle that they are in; what has none stays as
 * it is. For errors that nobody foresaw: Node's own `--enable-source-maps` costs every cold start, and they are rare.
 */
export function mappedStack(stack: string): string {
  const maps = new Map<string, SourceMap | undefined>();
  return stack.replace(placeInBundle, (place, url: string, line: string, column: string) => {
    if (!maps.has(url)) {
      maps.set(url, mapOf(url));
    }
    const origin = maps.get(url)?.findOrigin(Number(line), Number(column));
    return origin === undefined || !('fileName' in origin)
      ? place
      : `${origin.fileName.replace(/^(\.\.\/)+/, '')}:${origin.lineNumber}:${origin.columnNumber}`;
  });
}

function mapOf(url: string): SourceMap | undefined {
  try {
    return new SourceMap(JSON.parse(readFileSync(`${fileURLToPath(url)}.map`, 'utf8')));
  } catch {
    // Whatever is the matter with the map, the error itself is what has to be told.
    return undefined;
  }
}
