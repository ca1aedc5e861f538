import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, statSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import process from 'node:process';
import { promisify } from 'node:util';

import { runTool } from '../tool.ts';
import { Dependencies, sha } from './dependencies.ts';

const project = join(import.meta.dirname, '../..');
const cache = join(project, 'node_modules/.cache');
const greenPath = join(cache, 'checked.json');
/** These change the meaning of every check. */
const settings = ['package.json', 'package-lock.json', 'tsconfig.json', 'vitest.config.ts', '.oxlintrc.json'];
/** Tools in Go collect garbage only at this limit: fast where there is memory, and enough for a machine of 2 GiB. */
const goMemory = { GOGC: 'off', GOMEMLIMIT: '1GiB' };

const help = `node test/check/check.ts [--all]

Checks the tree between two changes: format and types of everything, then the tests without a machine and the lint, each
of the files that changed, or can reach a change, since they were last green. A red run remembers its green files, too.
--all forgets what was green.`;

/** The keys of the files that were green. A file with the same key is still green. */
interface Green {
  readonly tests: Record<string, string>;
  readonly lint: Record<string, string>;
}

async function readGreen(): Promise<Green> {
  return existsSync(greenPath) ? (JSON.parse(await readFile(greenPath, 'utf8')) as Green) : { tests: {}, lint: {} };
}

/** Returns the tracked files, and new files that git does not ignore. */
async function filesOfTree(): Promise<readonly string[]> {
  const words = ['ls-files', '--cached', '--others', '--exclude-standard'];
  const { stdout } = await promisify(execFile)('git', words, { cwd: project, maxBuffer: 2 ** 26 });
  const isFile = (path: string): boolean => statSync(join(project, path), { throwIfNoEntry: false })?.isFile() === true;
  return [...new Set(stdout.split('\n'))].filter((path) => path !== '' && isFile(path)).toSorted();
}

/** Returns the key of each source file. */
async function keysOfTree(): Promise<ReadonlyMap<string, string>> {
  const paths = await filesOfTree();
  const dependencies = new Dependencies(project, paths);
  const common = settings.map((path) => dependencies.keyOf(path)).join(' ');
  const tree = paths.map((path) => dependencies.contentOf(path)).join(' ');
  const keys = new Map<string, string>();
  for (const path of paths.filter((each) => /^(?:src|systemd|test)\/.*\.ts$/.test(each))) {
    const isReader = isTest(path) && readsTree(await readFile(join(project, path), 'utf8'));
    keys.set(path, sha(`${common} ${isReader ? tree : dependencies.keyOf(path)}`));
  }
  return keys;
}

/** True for a test that needs no machine. */
function isTest(path: string): boolean {
  return /\.(?:unit|contract)\.test\.ts$/.test(path);
}

/** True if a test reads files of the tree that no import and no name in it shows. */
function readsTree(text: string): boolean {
  return /import\.meta\.|page-examples|errors-page|config-example|bootloader-pages|pages\/documents/.test(text);
}

async function run(program: string, words: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<number> {
  const child = spawn(program, words, { cwd: project, env: { ...process.env, ...env }, stdio: 'inherit' });
  const [code] = (await once(child, 'close')) as [number | null];
  return code ?? 1;
}

/** Runs tests. Returns the files that passed, and whether all is green. */
async function runTests(paths: readonly string[]): Promise<{ isGreen: boolean; passed: readonly string[] }> {
  process.env['TEST_QUICK'] = '1';
  const { startVitest } = await import('vitest/node');
  const vitest = await startVitest('test', [...paths], { run: true, project: ['unit', 'contract'] });
  await vitest.close();
  const modules = vitest.state.getTestModules();
  const passed = modules.filter((module) => module.state() === 'passed' || module.state() === 'skipped');
  const isGreen = passed.length === modules.length && vitest.state.getUnhandledErrors().length === 0;
  return { isGreen, passed: passed.map(({ moduleId }) => relative(project, moduleId)) };
}

await runTool(help, { all: { type: 'boolean', default: false } }, async ({ all }) => {
  const green = all ? { tests: {}, lint: {} } : await readGreen();
  const tool = (name: string): string => join(project, 'node_modules/.bin', name);
  const format = await run(tool('oxfmt'), ['--check', '.']);
  if (format !== 0) console.log('To correct the format: npm run format');
  const first = format || (await run(tool('tsc'), [], goMemory));
  if (first !== 0) return first;

  const keys = await keysOfTree();
  const changed = (known: Readonly<Record<string, string>>): string[] =>
    [...keys].filter(([path, key]) => known[path] !== key).map(([path]) => path);
  const remember = async (kind: keyof Green, paths: Iterable<string>): Promise<void> => {
    for (const path of paths) green[kind][path] = keys.get(path) ?? '';
    await writeFile(greenPath, JSON.stringify(green));
  };

  const tests = changed(green.tests).filter(isTest);
  console.log(`${tests.length} of ${[...keys.keys()].filter(isTest).length} test files are not known to be green`);
  await mkdir(cache, { recursive: true });
  if (tests.length > 0) {
    const { isGreen, passed } = await runTests(tests);
    await remember('tests', passed);
    if (!isGreen) return 1;
  }

  const linted = changed(green.lint);
  console.log(`${linted.length} of ${keys.size} source files are not known to be clean`);
  const lint = linted.length === 0 ? 0 : await run(tool('oxlint'), ['--type-aware', ...linted], goMemory);
  if (lint === 0) await remember('lint', linted);
  return lint;
});
