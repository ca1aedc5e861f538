import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, copyFile, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { parseArgs, promisify } from 'node:util';

import { z } from 'zod';

import { agentVersion } from '../../src/version.ts';
import { buildTree, digestsOf, packTree } from './build.ts';
import { buildDeb } from './deb.ts';
import { Misuse, runTool, stepsOf } from './run-tool.ts';
import { sourceDate } from './source-date.ts';

/** Builds all files of a release twice, compares them, and reports what is missing before the release can be published. */

const run = promisify(execFile);
const project = resolve(import.meta.dirname, '../..');
const say = stepsOf('release');

const usage = `usage: npm run release -- [--dry-run] [--checks full|fast|none] [--key KEY] [--out DIR]

  --dry-run     report what is missing at the end, and keep no files without --out; otherwise, end at once if
                something is missing
  --checks HOW  full: npm test (default); fast: npm run check -- --all; none
  --key KEY     of gpg(1): signs the checksums
  --out DIR     where the packages, archives, bills of materials and checksums go, an empty directory or a new one
                (default: packages/VERSION)
  --help        show this

Exit code 0: the release can be published. 1: something failed, differs, was skipped or is missing.
`;

/** The state of the source that a release is made of. */
export interface SourceState {
  readonly version: string;
  readonly lockVersion: string;
  readonly changelog: string;
  /** The signed tags of the commit. */
  readonly tags: readonly string[];
  readonly changedFiles: readonly string[];
  /** The reason why nothing can be signed, or undefined. */
  readonly signingProblem: string | undefined;
}

/** Returns what has to be done before the release can be published. */
export function missingFrom({
  version,
  lockVersion,
  changelog,
  tags,
  changedFiles,
  signingProblem,
}: SourceState): string[] {
  const notes = notesOf(changelog, version);
  const missing: readonly (readonly [boolean, string])[] = [
    [!/^\d+\.\d+\.\d+$/.test(version), `${version} is not a version to release: expected MAJOR.MINOR.PATCH`],
    [lockVersion !== version, `package-lock.json is for ${lockVersion}: run npm install --package-lock-only`],
    [notes === undefined, `CHANGELOG.md has no section "## [${version}] - YYYY-MM-DD"`],
    [notes === '', `the section of ${version} in CHANGELOG.md is empty`],
    [!tags.includes(`v${version}`), `this commit has no signed tag v${version}: git tag -s v${version} -m ${version}`],
    [changedFiles.length > 0, `uncommitted changes: ${changedFiles.join(', ')}`],
    [signingProblem !== undefined, signingProblem ?? ''],
  ];
  return missing.flatMap(([isMissing, what]) => (isMissing ? [what] : []));
}

/** Returns the text of a version's section in the changelog; undefined if there is none with a date. */
export function notesOf(changelog: string, version: string): string | undefined {
  const sections = changelog.split(/^## /m).map((section) => section.split('\n'));
  const section = sections.find(
    ([head = '']) => head.startsWith(`[${version}] - `) && /^\d{4}-\d{2}-\d{2}$/.test(head.slice(version.length + 5)),
  );
  return section?.slice(1).join('\n').trim();
}

type Digests = ReadonlyMap<string, string>;

/** Returns the names of the files that differ, or that only one of two builds has. */
export function differing(first: Digests, second: Digests): readonly string[] {
  const names = new Set([...first.keys(), ...second.keys()]);
  return [...names].filter((name) => first.get(name) !== second.get(name)).sort();
}

/** Returns the checksums in the form of sha256sum(1). */
export function checksums(digests: Digests): string {
  return [...digests].map(([name, digest]) => `${digest}  ${name}\n`).join('');
}

/** Returns the signed tags of the present commit. */
export async function signedTags(repository: string): Promise<readonly string[]> {
  const form = '--format=%(if)%(contents:signature)%(then)%(refname:short)%(end)';
  const { stdout } = await run('git', ['-C', repository, 'for-each-ref', '--points-at', 'HEAD', form, 'refs/tags']);
  return stdout.split('\n').filter((line) => line !== '');
}

async function sourceState(key: string | undefined): Promise<SourceState> {
  const git = async (...words: string[]): Promise<readonly string[]> => {
    const { stdout } = await run('git', ['-C', project, ...words], { timeout: 60_000 });
    return stdout.split('\n').filter((line) => line !== '');
  };
  const lock = z
    .object({ version: z.string() })
    .parse(JSON.parse(await readFile(join(project, 'package-lock.json'), 'utf8')));
  return {
    version: agentVersion,
    lockVersion: lock.version,
    changelog: await readFile(join(project, 'CHANGELOG.md'), 'utf8'),
    tags: await signedTags(project),
    changedFiles: (await git('status', '--porcelain')).map((line) => line.slice(3)),
    signingProblem: key === undefined ? 'no signing key: name one with --key' : await signingProblemOf(key),
  };
}

/** Signs a file as the checksums are signed at the end: a key that cannot do that is found before everything is built. */
export async function signingProblemOf(key: string): Promise<string | undefined> {
  const work = await mkdtemp(join(tmpdir(), 'thing-agent-key-'));
  try {
    await writeFile(join(work, 'probe'), '');
    await sign(join(work, 'probe'), key);
    return undefined;
  } catch (error) {
    const lines = error instanceof Error ? error.message.trim().split('\n') : [];
    const why = lines.filter((line) => line.startsWith('gpg: ')).join('; ');
    return `the key ${key} cannot sign with the time of the last commit: ${why === '' ? lines.join(' ') : why}`;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

async function buildAll(out: string, key: string | undefined): Promise<Digests> {
  for (const arch of ['amd64', 'arm64']) {
    const work = await mkdtemp(join(tmpdir(), 'thing-agent-release-'));
    try {
      const tree = join(work, 'tree');
      await buildTree({ out: tree, main: join(project, 'src/main.ts'), arch, strip: true });
      const archive = await packTree(tree, arch, out);
      await copyFile(join(tree, 'sbom.cdx.json'), archive.replace('.tar.gz', '.cdx.json'));
      say(`built ${basename(archive)}; building the package`);
      await buildDeb({ out, arch, tree });
    } finally {
      await rm(work, { recursive: true, force: true });
    }
  }
  await writeFile(join(out, 'SHA256SUMS'), checksums(await digestsOf(out)));
  if (key !== undefined) await sign(join(out, 'SHA256SUMS'), key);
  return digestsOf(out);
}

/** The time of the signature is the commit's, so that two signatures are equal. */
async function sign(file: string, key: string): Promise<void> {
  const time = new Date((await sourceDate()) * 1000).toISOString().replace(/[-:]|\.\d+Z/g, '');
  const words = ['--batch', '--yes', `--faked-system-time=${time}!`, '--local-user', key, '--armor', '--detach-sign'];
  await run('gpg', [...words, file], { timeout: 120_000 });
}

const checks = {
  full: { words: ['test'], skipped: [] },
  fast: { words: ['run', 'check', '--', '--all'], skipped: ['the integration tests (--checks fast)'] },
  none: { words: [], skipped: ['all checks (--checks none)'] },
} as const;

/** Resolves with the skipped and failed steps. */
async function runChecks({ words, skipped }: (typeof checks)[keyof typeof checks]): Promise<readonly string[]> {
  if (words.length === 0) return skipped;
  say(`npm ${words.join(' ')}`);
  const child = spawn('npm', words, { cwd: project, stdio: ['ignore', 2, 2] });
  await once(child, 'close');
  return child.exitCode === 0 ? skipped : [...skipped, `npm ${words.join(' ')} failed`];
}

/** Builds into an empty or a new directory. Without `out`, the files are removed at the end. */
async function buildTwice(out: string | undefined, key: string | undefined): Promise<readonly string[]> {
  const work = await mkdtemp(join(tmpdir(), 'thing-agent-again-'));
  if (out !== undefined) await mkdir(dirname(out), { recursive: true });
  const draft = await mkdtemp(out === undefined ? join(work, 'first-') : `${out}.new-`);
  try {
    say('building all files');
    const first = await buildAll(draft, key);
    say('building them again');
    const different = differing(first, await buildAll(join(work, 'again'), key));
    await chmod(draft, 0o755);
    if (out !== undefined) await rename(draft, out);
    process.stdout.write(checksums(first));
    return different;
  } finally {
    await rm(work, { recursive: true, force: true });
    await rm(draft, { recursive: true, force: true });
  }
}

/** Returns where the files go: undefined for a dry run without a directory. */
async function outOf(named: string | undefined, isDry: boolean): Promise<string | undefined> {
  if (named === undefined && isDry) return undefined;
  const out = resolve(named ?? join(project, 'packages', agentVersion));
  await requireUnused(out);
  return out;
}

/** Throws if there is something in the directory. Files of a published release are never replaced. */
export async function requireUnused(out: string): Promise<void> {
  const names = existsSync(out) ? await readdir(out) : [];
  if (names.length > 0) throw new Error(`${out} is not empty: remove it, or name another directory with --out`);
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2));

async function main(args: readonly string[]): Promise<number> {
  return runTool('release', usage, async () => {
    const { values } = parseArgs({
      args: [...args],
      options: {
        'dry-run': { type: 'boolean', default: false },
        checks: { type: 'string', default: 'full' },
        key: { type: 'string' },
        out: { type: 'string' },
        help: { type: 'boolean', default: false },
      },
    });
    if (values.help) return void process.stdout.write(usage);
    const { checks: how, key } = values;
    if (how !== 'full' && how !== 'fast' && how !== 'none') throw new Misuse('--checks is full, fast or none');
    const out = await outOf(values.out, values['dry-run']);
    const state = await sourceState(key);
    const missing = missingFrom(state);
    if (!values['dry-run'] && missing.length > 0) throw new Error(`missing: ${missing.join('; ')}`);
    const failed = await runChecks(checks[how]);
    const different = await buildTwice(out, state.signingProblem === undefined ? key : undefined);
    const report = [
      ...failed.map((what) => `not checked: ${what}`),
      ...different.map((name) => `differs between two builds: ${name}`),
      ...missing.map((what) => `missing: ${what}`),
    ];
    for (const line of report) process.stdout.write(`${line}\n`);
    if (report.length > 0) throw new Error(`${agentVersion} cannot be published yet; reasons: ${report.length}`);
    say(`${agentVersion} is ready${out === undefined ? '' : ` in ${out}`}`);
  });
}
