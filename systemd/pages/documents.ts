import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

const project = join(import.meta.dirname, '../..');
const pages = 'docs';

/** The path of a document in the source tree, and its path on a gateway. */
const installedAs: Readonly<Record<string, string>> = {
  '[config.toml](systemd/config.toml)': '`/etc/thing-agent/config.example.toml`',
  '](docs/': '](',
  '](../SECURITY.md)': '](SECURITY.md)',
  '\nIn the source tree, run `npm ci` and `PATH=$PWD:$PATH` instead of installing the package.\n': '',
  '`systemd/thing-agent.service`': '`/usr/lib/systemd/system/thing-agent.service`',
  '`systemd/trial-guard`': '`/usr/lib/thing-agent/trial-guard`',
  '; after `systemd/install --uninstall`, remove `/var/lib/thing-agent` and `/etc/thing-agent` manually': '',
};

/** Words in parentheses that only name tests, or commands of the source tree. */
const sourceOnly = /,?\s\((?:`?(?:test\/[^`),]*|npm run [^`),]*)`?(?:,\s)?)+\)/g;

/** A section about the source tree alone, marked by its title. */
const sourceSections = /\n## [^\n]*\(source tree\)\n[^]*?(?=\n## |$)/g;

/** A screenshot, which the package does not have. */
const screenshot = /^!\[[^\]]*\]\(images\/[\w-]+\.png\)\n\n/gm;

const picture = /!\[[^\]]*\]\((images\/[\w-]+\.svg)\)/g;

/** The title of a page about the source tree alone. */
export const sourcePage = /^# [^\n]*\(source tree\)\n/;

/** Documents for people at a gateway, by the names that they have there. */
export async function documents(): Promise<Readonly<Record<string, string>>> {
  const texts: Readonly<Record<string, string>> = {
    ...(await pagesOfFolder()),
    'README.md': await readme(),
    'guarantees.md': withoutTests(await source(join(pages, 'guarantees.md'))),
    'SECURITY.md': await source('SECURITY.md'),
  };
  const there = Object.keys(texts);
  const ready = Object.entries(texts).map(([name, text]) => [name, forGateway(name, text, there)] as const);
  return { ...Object.fromEntries(ready), ...(await picturesOf(ready.map(([, text]) => text))) };
}

async function pagesOfFolder(): Promise<Readonly<Record<string, string>>> {
  const folders = ['', 'bootloaders'];
  const listed = await Promise.all(
    folders.map(async (folder) => (await readdir(join(project, pages, folder))).map((name) => join(folder, name))),
  );
  const names = listed.flat().filter((name) => name.endsWith('.md'));
  const texts = await Promise.all(names.map(async (name) => [name, await source(join(pages, name))] as const));
  return Object.fromEntries<string>(texts.filter(([, text]) => !sourcePage.test(text)));
}

/** The pictures that the pages show, by the names that they have there. */
async function picturesOf(texts: readonly string[]): Promise<Readonly<Record<string, string>>> {
  const names = texts.flatMap((text) => [...text.matchAll(picture)].map(([, name = '']) => name));
  return Object.fromEntries(
    await Promise.all([...new Set(names)].map(async (name) => [name, await source(join(pages, name))] as const)),
  );
}

/** Throws where something is left that only the source tree has. */
function forGateway(name: string, text: string, there: readonly string[]): string {
  const replaced = Object.entries(installedAs).reduce((all, [from, to]) => all.replaceAll(from, to), text);
  const done = replaced.replaceAll(sourceSections, '').replaceAll(sourceOnly, '').replaceAll(screenshot, '');
  const unlinked = done.replaceAll(/\]\(([\w./-]+\.md)(?:#[^)]*)?\)/g, (link, file: string) =>
    there.includes(join(dirname(name), file)) ? ']' : link,
  );
  const left = /(?<![\w/.-])(?:src|test|systemd)\/[\w.-]+|npm (?:run|ci)\b|\]\((?!https?:)[^)]*\)/.exec(
    unlinked.replaceAll(picture, ''),
  );
  if (left !== null) throw new Error(`${name} of the package names ${left[0]}, which only the source tree has`);
  return done;
}

async function source(path: string): Promise<string> {
  return readFile(join(project, path), 'utf8');
}

/** The index of the pages, and the sections of the project's README about a gateway. */
async function readme(): Promise<string> {
  const text = await source('README.md');
  const index = (await source(join(pages, 'README.md'))).replace(/^# .*\n\n/, '');
  const parts = ['Configure', 'Everyday commands', 'When something goes wrong'].map((title) => sectionOf(text, title));
  return `# Thing Agent on this gateway\n\nSee also agent(8) and thing-agent.toml(5).\n\n${index}\n${parts.join('\n')}`;
}

/** Guarantees by name, and assumptions, without the tests that show them, which only the source tree has. */
function withoutTests(text: string): string {
  const [before = '', guarantees = '', after = ''] = text.split(/(?=^## (?:Each guarantee|Limits and details)$)/m);
  const named = guarantees.replace(/^The source cites[^]*?\n\n/m, '');
  return `${before}${withCells(named, 2)}${withCells(after, 1)}`;
}

/** Cuts each row of the tables after this number of cells. */
function withCells(text: string, count: number): string {
  const row = new RegExp(`^((?:\\|(?:[^|\`]|\`[^\`]*\`)*){${count}}\\|).*$`, 'gm');
  return text.replaceAll(row, '$1');
}

/** With its heading, up to the next one of the same rank. */
function sectionOf(text: string, title: string): string {
  const start = text.indexOf(`\n## ${title}\n`);
  if (start < 0) throw new Error(`there is no section "${title}"`);
  const end = text.indexOf('\n## ', start + 1);
  return `${text.slice(start + 1, end < 0 ? undefined : end).trimEnd()}\n`;
}
