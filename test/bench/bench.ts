import { helpText, readCommandLine } from './command-line.ts';
import { measureParts } from './measure-parts.ts';
import { parts } from './parts.ts';
import { jsonReport, tableReport } from './report.ts';

/** Figures go to stdout, how far it is to stderr. */
const request = readCommandLine(process.argv.slice(2), parts);
switch (request.kind) {
  case 'help':
    process.stdout.write(helpText(parts));
    break;
  case 'wrong':
    process.stderr.write(`bench: ${request.problem}\nbench: npm run bench -- --help says more\n`);
    process.exitCode = 2;
    break;
  case 'measure': {
    const say = (line: string): void => void process.stderr.write(`${line}\n`);
    const { figures, broken } = await measureParts(request.parts, request, say);
    process.stdout.write(`${request.isJson ? jsonReport(figures) : tableReport(figures)}\n`);
    if (broken.length > 0) {
      say(`bench: not measured: ${broken.join(', ')}`);
      process.exitCode = 1;
    }
  }
}
