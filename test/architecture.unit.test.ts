import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

import { describe, expect, test } from 'vitest';

import { errorCatalogue, explainCode } from '../src/error-catalogue.ts';
import { sharedErrors } from '../src/system/shared-errors.ts';
import { errorsPage, errorsPagePath, knownCodes } from './errors-page.ts';
import { longest } from './longest-first.ts';

const root = join(import.meta.dirname, '..');
const sources = globSync('src/**/*.ts', { cwd: root }).map((path) => ({
  path,
  text: readFileSync(join(root, path), 'utf8'),
}));

describe('a third-party package', () => {
  /** The exceptions of docs/decisions. */
  const everywhere = new Set(['zod']);

  test('is named in one file or one folder', () => {
    const users = new Map<string, Set<string>>();
    for (const { path, text } of sources) {
      for (const [, name = ''] of text.matchAll(/(?:from|import\()\s*'([^.'][^']*)'/g)) {
        if (name.startsWith('node:') || everywhere.has(name)) continue;
        users.set(name, (users.get(name) ?? new Set()).add(dirname(path)));
      }
    }
    const scattered = [...users].filter(([, folders]) => folders.size > 1).map(([name]) => name);
    expect(scattered).toEqual([]);
  });
});

function hasMeanings(found: unknown): found is { readonly meanings: object } {
  return typeof found === 'function' && 'meanings' in found && typeof found.meanings === 'object';
}

describe('an error code', () => {
  const codes = errorCatalogue.flatMap((group) => Object.keys(group.codes));

  test('is explained in one place, or shared by rooms and means the same in each', () => {
    const meanings = errorCatalogue.flatMap((group) => Object.entries(group.codes));
    const contradicted = meanings.filter(([code, { means }]) => means !== explainCode(code)?.means);
    expect(contradicted).toEqual([]);
    const twice = codes.filter((code, index) => codes.indexOf(code) !== index);
    expect(new Set(twice)).toEqual(new Set(Object.keys(sharedErrors)));
    expect(codes.length).toBeGreaterThan(200);
  });

  test('is spelled as all others', () => {
    expect(codes.filter((code) => !/^[a-z]+(?:-[a-z0-9]+)*$/.test(code))).toEqual([]);
  });

  test('comes from a table: nothing throws an error without one', () => {
    const strays = sources.filter(({ text }) => /new AgentError\(/.test(text)).map(({ path }) => path);
    expect(strays).toEqual([]);
    const without = sources.filter(({ text }) => /\bextends AgentError\b/.test(text)).map(({ path }) => path);
    expect(without.sort()).toEqual(['src/control/control-errors.ts', 'src/system/define-errors.ts']);
  });

  test('is in the catalogue, wherever the sources say `code: …`', () => {
    const said = sources.flatMap(({ text }) =>
      [...text.matchAll(/\bcode: '([a-z]+(?:-[a-z0-9]+)+)'/g)].map(([, code = '']) => code),
    );
    expect(said.filter((code) => !codes.includes(code))).toEqual([]);
  });

  test('is in the catalogue with all others of its table', async () => {
    const tables = sources.filter(
      ({ path, text }) => text.includes('defineErrors(') && !path.endsWith('define-errors.ts'),
    );
    const modules = await Promise.all(tables.map(async ({ path }) => (await import(join(root, path))) as object));
    const classes = modules.flatMap((found) => Object.values(found) as unknown[]).filter(hasMeanings);
    expect(tables.length).toBeGreaterThan(10);
    expect(classes.length).toBeGreaterThanOrEqual(tables.length);
    expect(classes.flatMap(({ meanings }) => Object.keys(meanings)).filter((code) => !codes.includes(code))).toEqual(
      [],
    );
  });

  test('stays one: services and programs of others know it (npm run errors notes new ones)', () => {
    expect(knownCodes().filter((code) => !codes.includes(code))).toEqual([]);
    expect(codes.filter((code) => !knownCodes().includes(code))).toEqual([]);
  });

  test('has a remedy, if only that no action is needed', () => {
    const without = errorCatalogue.flatMap(({ codes: ofModule }) =>
      Object.entries(ofModule).flatMap(([code, { advice }]) => (advice === undefined || advice === '' ? [code] : [])),
    );
    expect(without).toEqual([]);
  });

  test('is on the page of error codes with its table’s description (npm run errors writes it)', () => {
    expect(readFileSync(errorsPagePath, 'utf8')).toBe(errorsPage());
  });
});

test('the source has no code that only tests use', () => {
  const tools = globSync('systemd/**/*.ts', { cwd: root }).map((path) => readFileSync(join(root, path), 'utf8'));
  const times = new Map<string, number>();
  for (const text of [...sources.map((source) => source.text), ...tools]) {
    for (const [word] of text.matchAll(/\w+/g)) times.set(word, (times.get(word) ?? 0) + 1);
  }
  const declared = /^export (?:abstract )?(?:async )?(?:function\*?|const|class|interface|type) (\w+)/gm;
  const unused = sources.flatMap(({ path, text }) =>
    [...text.matchAll(declared)].flatMap(([, name = '']) => (times.get(name) === 1 ? [`${path}: ${name}`] : [])),
  );
  expect(times.size).toBeGreaterThan(5_000);
  expect(unused).toEqual([]);
});

test('a directory has at most fifteen files, besides its page', () => {
  const counts = new Map<string, number>();
  for (const entry of globSync(['src/**', 'systemd/**', 'test/**'], { cwd: root, withFileTypes: true })) {
    const folder = relative(root, entry.parentPath);
    if (entry.isFile() && !entry.name.endsWith('.md')) counts.set(folder, (counts.get(folder) ?? 0) + 1);
  }
  expect(counts.size).toBeGreaterThan(80);
  expect([...counts].filter(([, count]) => count > 15)).toEqual([]);
});

test('each file that npm test starts first exists', () => {
  const files = longest.map((name) => join(import.meta.dirname, `${name}.integration.test.ts`));
  expect(files.filter((file) => !existsSync(file))).toEqual([]);
});

test('no wait for a board or a source rests on AbortSignal.timeout, whose timer lets the process end', () => {
  const rooms = sources.filter(({ path }) => /^src\/(?:mcu|telemetry)\//.test(path));
  const weak = rooms.filter(({ text }) => text.includes('AbortSignal.timeout')).map(({ path }) => path);
  expect(rooms.length).toBeGreaterThan(0);
  expect(weak).toEqual([]);
});

test('a connection to a host is opened by Dialing alone: node:net drops addresses that answer after 250 ms', () => {
  const strays = sources.filter(({ text }) =>
    /\b(?:connect\w*|createConnection)\(\{(?! path|[^}]*\bsocket\b)[^}]*\b(?:host|port)\b/.test(text),
  );
  expect(strays.map(({ path }) => path)).toEqual([]);
});

test('no source names a path of a developer', () => {
  const strays = sources
    .filter(({ text }) => text.includes(`${dirname(root)}/`))
    .map(({ path }) => relative(root, path));
  expect(strays).toEqual([]);
});

/** The table of docs/guarantees.md with each guarantee, its name and its tests. */
function guaranteeTable(): string {
  const page = readFileSync(join(root, 'docs/guarantees.md'), 'utf8');
  return /^## Each guarantee$.*?(?=^## )/ms.exec(page)?.[0] ?? '';
}

describe('the source cites', () => {
  const house = readFileSync(join(root, 'src/README.md'), 'utf8');
  const scripts = ['trial-guard', 'package-guard', 'debian/wait-for-update'].map((it) => `systemd/${it}`);
  const texts = globSync(['src/**/*.ts', 'src/*/**/*.md', 'docs/bootloaders/*.md', ...scripts], { cwd: root }).map(
    (path) => readFileSync(join(root, path), 'utf8'),
  );
  const citedBy = (pattern: RegExp): Set<string> =>
    new Set(texts.flatMap((text) => [...text.matchAll(pattern)].map(([, cited = '']) => cited)));

  test('each invariant of src/README.md, and no other', () => {
    const [section = ''] = /^## Invariants$.*?(?=^## )/ms.exec(house) ?? [];
    const invariants = new Set([...section.matchAll(/^(\d+)\. /gm)].map(([, number = '']) => number));
    expect(invariants.size).toBeGreaterThan(5);
    expect(citedBy(/\bInvariant (\d+)\b/g)).toEqual(invariants);
  });

  test('each guarantee of docs/guarantees.md by its name, and no other', () => {
    const promises = new Set(
      [...guaranteeTable().matchAll(/^\| .+? \| `([a-z-]+)` \| /gm)].map(([, name = '']) => name),
    );
    expect(promises.size).toBeGreaterThan(30);
    expect(citedBy(/\bguarantee `([a-z-]+)`/gi)).toEqual(promises);
  });
});

test('finds a row of attacks for each guarantee, in the same words', () => {
  const firstCells = (text: string): readonly string[] =>
    [...text.matchAll(/^\| (.+?) \| /gm)].map(([, cell = '']) => cell).filter((cell) => cell !== 'guarantee');
  const promises = firstCells(guaranteeTable());
  const attacked = firstCells(readFileSync(join(root, 'test/guarantees/README.md'), 'utf8'));
  expect(promises.length).toBeGreaterThan(20);
  expect(promises.filter((promise) => !attacked.some((row) => promise.startsWith(row)))).toEqual([]);
  expect(attacked.filter((row) => !promises.some((promise) => promise.startsWith(row)))).toEqual([]);
});

test('finds the tests that each guarantee names, and one of them in npm test', () => {
  const rows = [...guaranteeTable().matchAll(/^\| .+? \| `([a-z-]+)` \| (.+) \|$/gm)];
  const shown = rows.map(([, promise, by = '']) => {
    const named = [...by.matchAll(/`(test\/[^`]+)`/g)].map(([, path = '']) => path);
    return { promise, named, tests: named.flatMap((path) => globSync(`${path}{,/**}`, { cwd: root })) };
  });
  expect(shown.length).toBeGreaterThan(30);
  expect(shown.flatMap(({ named }) => named).filter((path) => !existsSync(join(root, path)))).toEqual([]);
  const isPlayed = (path: string): boolean => /\.(?:unit|contract|integration)\.test\.ts$/.test(path);
  expect(shown.filter(({ tests }) => !tests.some(isPlayed)).map(({ promise }) => promise)).toEqual([]);
});

test('a page links to what there is', () => {
  const pages = globSync(['*.md', '{docs,src,systemd,test}/**/*.md'], { cwd: root });
  const dead = pages.flatMap((page) => {
    const links = [...readFileSync(join(root, page), 'utf8').matchAll(/\]\(([^)#\s]+)/g)].map(([, link = '']) => link);
    const missing = links.filter(
      (link) => !/^(?:[a-z]+:|\.\.\/\.\.\/actions\/)/.test(link) && !existsSync(join(root, dirname(page), link)),
    );
    return missing.map((link) => `${page}: ${link}`);
  });
  expect(pages.length).toBeGreaterThan(20);
  expect(dead).toEqual([]);
});
