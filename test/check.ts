import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { promisify } from 'node:util';

import { runTool } from './tool.ts';

const project = join(import.meta.dirname, '..');
/** The tree of git that the last check found in order. */
const checkedPath = join(project, 'node_modules/.cache/checked');
const fastTests = ['--project', 'unit', '--project', 'contract'];

const help = `node test/check.ts [--all]

What somebody waits for between two changes: format, lint and types of everything, and of the tests that need no machine
those that anything changed since the last check in order can reach by imports, with those that read files of the house.
A new clone, a change that no import leads to, and --all run all of them.`;

/** The index of git is left alone: what is not committed is added to a copy. */
async function treeAsItStands(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'check-'));
  const env = { ...process.env, GIT_INDEX_FILE: join(folder, 'index') };
  try {
    await copyFile(
      (await git('rev-parse', '--path-format=absolute', '--git-path', 'index')).trim(),
      env.GIT_INDEX_FILE,
    );
    await promisify(execFile)('git', ['add', '--all'], { cwd: project, env });
    const { stdout } = await promisify(execFile)('git', ['write-tree'], { cwd: project, env });
    return stdout.trim();
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function git(...words: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)('git', words, { cwd: project });
  return stdout;
}

/** The words for vitest, or none where nothing has to be run. */
async function testsFor(now: string, isAll: boolean): Promise<readonly string[] | undefined> {
  const changed = isAll ? undefined : await changedUntil(now);
  if (changed?.length === 0) return undefined;
  if (changed === undefined || !changed.every(isReachedByImports)) return ['run', ...fastTests];
  return ['related', ...changed.filter((path) => existsSync(join(project, path))), ...readers(), '--run', ...fastTests];
}

/** The files that differ from the last check in order; `undefined` where there was none that git still has. */
async function changedUntil(now: string): Promise<readonly string[] | undefined> {
  if (!existsSync(checkedPath)) return undefined;
  const before = (await readFile(checkedPath, 'utf8')).trim();
  try {
    return (await git('diff', '--name-only', before, now)).split('\n').filter((path) => path !== '');
  } catch (error) {
    if (!(error instanceof Error) || !('code' in error)) throw error;
    return undefined; // what nothing refers to is collected after two weeks
  }
}

/** Pages are read by tests that `readers` names. A thread's program and data are named by no import, settings reach everything. */
function isReachedByImports(path: string): boolean {
  return path.endsWith('.md') || (/^(?:src|systemd|test)\/.*\.ts$/.test(path) && !path.endsWith('-worker.ts'));
}

/** Fast tests that read files of the house, which no import shows. */
function readers(): string[] {
  return globSync('test/**/*.{unit,contract}.test.ts', { cwd: project }).filter((path) =>
    /import\.meta\.|page-examples|errors-page|config-example|readme-script|pages\/documents/.test(
      readFileSync(join(project, path), 'utf8'),
    ),
  );
}

async function run(program: string, words: readonly string[]): Promise<number> {
  const env = { ...process.env, TEST_QUICK: '1' };
  const child = spawn(program, words, { cwd: project, env, stdio: 'inherit' });
  const [code] = (await once(child, 'close')) as [number | null];
  return code ?? 1;
}

await runTool(help, { all: { type: 'boolean', default: false } }, async ({ all }) => {
  const now = await treeAsItStands();
  const lint = await run('npm', ['run', '--silent', 'lint']);
  if (lint !== 0) return lint;
  const words = await testsFor(now, all);
  if (words === undefined) console.log('Nothing has changed since the last check in order; --all runs all tests.');
  const tests = words === undefined ? 0 : await run(process.execPath, ['node_modules/vitest/vitest.mjs', ...words]);
  if (tests === 0) await writeFile(checkedPath, `${now}\n`);
  return tests;
});
