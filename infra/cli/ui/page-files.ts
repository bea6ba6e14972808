import { readFileSync, readdirSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { extname } from 'node:path';

/** A file as a browser gets it. */
export interface PageFile {
  readonly contentType: string;
  readonly text: string;
}

const folder = new URL('page/', import.meta.url);

const contentTypes: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.ts': 'text/javascript; charset=utf-8',
};

/**
 * Every file of the page by its path, `/` for the page itself. Browsers take modules by what the server says they are, so
 * each keeps its name, and its lines too: types are blanked out, nothing is bundled.
 */
export function readPageFiles(): ReadonlyMap<string, PageFile> {
  const files = readdirSync(folder).flatMap((name) => {
    const contentType = contentTypes[extname(name)];
    if (contentType === undefined) {
      return [];
    }
    const source = readFileSync(new URL(name, folder), 'utf8');
    const text = name.endsWith('.ts') ? withoutTypes(source) : source;
    return [[name === 'page.html' ? '/' : `/${name}`, { contentType, text }] as const];
  });
  const all = new Map([...files, ['/protocol.ts', protocol()] as const]);
  const page = all.get('/');
  return page === undefined ? all : all.set('/', withPreloads(page, [...all.keys()]));
}

/** Names every module in the page's head: a browser asks for all at once then, and not for each when it is imported. */
function withPreloads({ contentType, text }: PageFile, paths: readonly string[]): PageFile {
  const links = paths
    .filter((path) => path.endsWith('.ts'))
    .map((path) => `<link rel="modulepreload" href="${path}" />`);
  return { contentType, text: text.replace('</head>', `${links.join('')}</head>`) };
}

/** What both sides know lies beside the server's files, and is the only one of them that a browser gets. */
function protocol(): PageFile {
  const source = readFileSync(new URL('protocol.ts', import.meta.url), 'utf8');
  return { contentType: 'text/javascript; charset=utf-8', text: withoutTypes(source) };
}

/**
 * Node warns that its function may change. Whoever runs the command can do nothing about that, and the tests, which read the
 * page in a browser, would notice; so the warning is kept back.
 */
function withoutTypes(source: string): string {
  const usual = Object.getOwnPropertyDescriptor(process, 'emitWarning') ?? {};
  Object.defineProperty(process, 'emitWarning', { ...usual, value: () => undefined });
  try {
    return stripTypeScriptTypes(source);
  } finally {
    Object.defineProperty(process, 'emitWarning', usual);
  }
}
