import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { errorCatalogue, errorCodes } from '../src/error-catalogue.ts';
import { exitCodes } from '../src/system/errors.ts';
import { runTool } from './tool.ts';

/** The page of error codes for people: `npm run errors` writes it, a test compares. */
export const errorsPagePath = join(import.meta.dirname, '../docs/error-codes.md');

/** Each code that there ever was. A code is stable: what has left the catalogue is a mistake. */
const knownCodesPath = join(import.meta.dirname, 'known-codes.txt');

export function knownCodes(): readonly string[] {
  return readFileSync(knownCodesPath, 'utf8').trim().split('\n');
}

export function errorsPage(): string {
  const sections = errorCatalogue.map(({ title, codes }) => {
    const rows = Object.entries(codes).map(([code, meaning]) => {
      const exit = 'exit' in meaning ? String(exitCodes[meaning.exit]) : '';
      const again = 'remedy' in meaning ? (meaning.remedy === 'retry' ? 'yes' : 'no') : '';
      return `| \`${code}\` | ${meaning.means} | ${meaning.advice ?? ''} | ${again} | ${exit} |\n`;
    });
    return `## ${title}\n\n| code | meaning | what to do | retried | exit |\n|---|---|---|---|---|\n${rows.join('')}`;
  });
  return `# Error codes

Codes are stable: they appear in reports to the service and never change. \`agent explain CODE\` prints the same on the
gateway, offline. A message may contain more specific advice than this page. "Retried" shows if the agent tries again
automatically. This page is generated from the tables of the modules (\`npm run errors\`).

${sections.join('\n')}`;
}

if (import.meta.main) {
  await runTool('usage: npm run errors', {}, async () => {
    writeFileSync(errorsPagePath, errorsPage());
    writeFileSync(knownCodesPath, `${[...new Set([...knownCodes(), ...errorCodes()])].toSorted().join('\n')}\n`);
    return 0;
  });
}
