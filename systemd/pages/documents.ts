import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

const project = join(import.meta.dirname, '../..');

/** What a document of the source tree calls by its path there, and where that lies on a gateway. */
const installedAs: Readonly<Record<string, string>> = {
  '[systemd/config.toml](systemd/config.toml)': '`/etc/thing-agent/config.toml`',
  '([what to put on the gateway](src/slots/bootloaders/README.md))': '(bootloaders.md)',
  '([all of them](src/ERRORS.md))': '(all of them: ERRORS.md)',
  '[its page](slots/bootloaders/README.md)': 'bootloaders.md',
  '[SECURITY.md](SECURITY.md)': 'SECURITY.md',
  '("Guarantees" of `src/README.md`)': '(GUARANTEES.md)',
  '[hooks.md](systemd/doc/hooks.md)': 'hooks.md',
  '[monitoring.md](systemd/doc/monitoring.md)': 'monitoring.md',
  '[socket-api.md](systemd/doc/socket-api.md)': 'socket-api.md',
  '`systemd/thing-agent.service`': '`/usr/lib/systemd/system/thing-agent.service`',
  '`systemd/trial-guard`': '`/usr/lib/thing-agent/trial-guard`',
  '; what `systemd/install` brought has to be followed by removing it by hand': '',
};

/** Words in parentheses that only name tests, or commands of the source tree. */
const sourceOnly = /,?\s\((?:`?(?:test\/[^`),]*|npm run [^`),]*)`?(?:, )?)+\)/g;

/** A sentence about what is tried with the tests' stand-ins. */
const standIns = / To try it by\s+hand:[^]*?\.\n/g;

/** Documents for people at a gateway, by the names that they have there. */
export async function documents(): Promise<Readonly<Record<string, string>>> {
  const texts = {
    'README.md': await readme(),
    'GUARANTEES.md': await guarantees(),
    'ERRORS.md': await source('src/ERRORS.md'),
    'SECURITY.md': await source('SECURITY.md'),
    'bootloaders.md': await source('src/slots/bootloaders/README.md'),
    'hooks.md': await source('systemd/doc/hooks.md'),
    'monitoring.md': await source('systemd/doc/monitoring.md'),
    'socket-api.md': await source('systemd/doc/socket-api.md'),
  };
  return Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, forGateway(name, text)]));
}

/** Throws where something is left that only the source tree has. */
function forGateway(name: string, text: string): string {
  const replaced = Object.entries(installedAs).reduce((all, [from, to]) => all.replaceAll(from, to), text);
  const done = replaced.replaceAll(standIns, '\n').replaceAll(sourceOnly, '');
  const left = /(?<![\w/.-])(?:src|test|systemd)\/[\w.-]+|npm (?:run|ci)\b|\]\((?!https?:)[^)]*\)/.exec(done);
  if (left !== null) throw new Error(`${name} of the package names ${left[0]}, which only the source tree has`);
  return done;
}

async function source(path: string): Promise<string> {
  return readFile(join(project, path), 'utf8');
}

async function readme(): Promise<string> {
  const text = await source('README.md');
  const parts = ['Configure', 'Measure', 'Operate', 'When something is wrong'].map((title) => sectionOf(text, title));
  return `# Thing Agent on this gateway\n\nSee also agent(8), thing-agent.toml(5), and the files beside this one.\n\n${parts.join('\n')}`;
}

/** What is promised, and of whom that is assumed; not by which tests it is shown. */
async function guarantees(): Promise<string> {
  const section = sectionOf(await source('src/README.md'), 'Guarantees');
  const lines = section.replaceAll('Each with the test that fails without it.\n\n', '').split('\n');
  const kept = lines.map((text) => (text.startsWith('|') ? firstCell(text) : text)).join('\n');
  return kept.replace(/^## /, '# ').replaceAll(/ Each names the test[^]*?not\.\n/g, '\n');
}

function firstCell(row: string): string {
  const [, cell = ''] = /^\|((?:[^|`]|`[^`]*`)*)\|/.exec(row) ?? [];
  return `|${cell}|`;
}

/** With its heading, up to the next one of the same rank. */
function sectionOf(text: string, title: string): string {
  const start = text.indexOf(`\n## ${title}\n`);
  if (start < 0) throw new Error(`there is no section "${title}"`);
  const end = text.indexOf('\n## ', start + 1);
  return `${text.slice(start + 1, end < 0 ? undefined : end).trimEnd()}\n`;
}
