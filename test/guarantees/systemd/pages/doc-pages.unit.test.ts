import { existsSync, globSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';

import { describe, expect, test } from 'vitest';

import { choicesOf, configTree } from '../../../../systemd/pages/config-tree.ts';
import { documents, sourcePage } from '../../../../systemd/pages/documents.ts';
import { isTable } from '../../../../systemd/pages/toml-text.ts';
import { configOf, settingsOf } from './page-config.ts';
import { usageErrorOf, typedIn, wordsOf } from './typed-commands.ts';

const project = resolve(import.meta.dirname, '../../../..');
const doc = 'docs';
const names = (await readdir(join(project, doc))).filter((name) => name.endsWith('.md')).map((name) => join(doc, name));
const bootloaders = globSync('docs/bootloaders/*.md', { cwd: project });
const paths = [...names, ...bootloaders, 'README.md', 'SECURITY.md'];

async function textOf(path: string): Promise<string> {
  return readFile(join(project, path), 'utf8');
}

/** Links to a file and heading, without web addresses and the page of CI runs. */
function linksOf(text: string): readonly (readonly [string, string])[] {
  const links = text.matchAll(/\]\((?!https?:|\.\.\/\.\.\/actions\/)(?<file>[^)#]*)(?:#(?<heading>[^)]*))?\)/g);
  return [...links].map(({ groups }) => [groups?.['file'] ?? '', groups?.['heading'] ?? '']);
}

/** As GitHub names them; the empty one is the whole page. */
function headingsOf(text: string): readonly string[] {
  return [
    '',
    ...[...text.matchAll(/^#+ (.*)$/gm)].map(([, title = '']) =>
      title
        .toLowerCase()
        .replaceAll(/[^\w\s-]/g, '')
        .replaceAll(' ', '-'),
    ),
  ];
}

/** True if the configuration has this setting. NAME stands for the name of a target. */
function hasSetting(path: readonly string[], { items, ...node } = configTree()): boolean {
  const [key, ...rest] = path;
  if (key === undefined) return true;
  const found = node.properties?.[key] ?? (isTable(node.additionalProperties) ? node.additionalProperties : undefined);
  if (found !== undefined && hasSetting(rest, found)) return true;
  return [...choicesOf(node), ...(items === undefined ? [] : [items])].some((choice) => hasSetting(path, choice));
}

describe('the pages for people at a gateway', () => {
  test.each(paths)('%s: its links lead somewhere', async (path) => {
    for (const [file, heading] of linksOf(await textOf(path))) {
      const there = file === '' ? path : join(dirname(path), file);
      expect(existsSync(join(project, there)), `${path} links ${file}`).toBe(true);
      expect(headingsOf(await textOf(there))).toContain(heading);
    }
  });

  test.each(paths)('%s: what is typed is understood by the agent', async (path) => {
    const lines = typedIn(await textOf(path));
    for (const line of lines) expect(usageErrorOf(line), `${path}: agent ${line}`).toBeUndefined();
  });

  test.each(names)('%s: its settings are a configuration', async (path) => {
    for (const settings of settingsOf(await textOf(path))) expect(configOf(settings).service.url).toBeDefined();
  });

  // Regression: `[report] whole_image` instead of `full_image`.
  test.each(paths)('%s: names only settings that exist', async (path) => {
    const named = [...(await textOf(path)).matchAll(/`\[{1,2}([\w.]+)\]{1,2} ([\w.]+)/g)];
    const unknown = named.filter(([, table = '', name = '']) => !hasSetting(`${table}.${name}`.split('.')));
    expect(unknown.map(([mention]) => mention)).toEqual([]);
  });

  /** By typed-pages.integration.test.ts, socket-api.integration.test.ts and metrics.integration.test.ts. */
  const played = ['api', 'boards', 'deltas', 'measurements', 'monitoring', 'operations', 'package-targets'];
  played.push('signing-and-keys', 'troubleshooting');

  test('have commands that tests run, or a mark that they do not (sh not-run)', async () => {
    const runnable = await Promise.all(names.map(async (path) => /^```sh$/m.test(await textOf(path))));
    expect(names.filter((_path, index) => runnable[index])).toEqual(played.map((name) => join(doc, `${name}.md`)));
  });

  test('the index names each, and nothing else', async () => {
    const index = await textOf(join(doc, 'README.md'));
    const linked = linksOf(index).map(([file]) => join(doc, file));
    expect(linked.filter((path) => dirname(path) === doc).toSorted()).toEqual(
      names.filter((path) => !path.endsWith('/README.md')).toSorted(),
    );
  });

  test('are installed with the package, where their links lead somewhere, too', async () => {
    const texts = await documents();
    const ofSource = await Promise.all(names.map(async (path) => sourcePage.test(await textOf(path))));
    expect(ofSource).toContain(true);
    const installed = names.filter((_path, index) => ofSource[index] === false);
    expect(Object.keys(texts)).toEqual(expect.arrayContaining(installed.map((path) => path.slice(doc.length + 1))));
    for (const [name, text] of Object.entries(texts).filter(([path]) => path.endsWith('.md'))) {
      for (const [link, heading] of linksOf(text)) {
        const file = link === '' ? name : join(dirname(name), link);
        expect(Object.keys(texts)).toContain(file);
        expect(headingsOf(texts[file] ?? '')).toContain(heading);
      }
    }
    expect(texts['first-update.md']).not.toContain('source tree');
  });
});

describe('what is typed', () => {
  test('finds commands in blocks and in sentences, without comments and the text that follows', () => {
    const page =
      'Say `agent hold 4h`, or `agent`.\n\n```sh\nsudo agent install "a b" && agent status | cat    # agent no\nagent-x\n  agent info \\\n  FILE > out\n```\n';
    expect(typedIn(page)).toEqual(['install "a b"', 'status', 'info FILE', 'hold 4h']);
    expect(wordsOf('install "a b" \'c d\' e')).toEqual(['install', 'a b', 'c d', 'e']);
  });

  test('reports a command that the agent does not know', () => {
    expect(usageErrorOf('instal FILE')).toContain('instal');
    expect(usageErrorOf('status --force')).toBeDefined();
  });
});
