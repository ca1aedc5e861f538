import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs, promisify } from 'node:util';

import { agentVersion } from '../../src/version.ts';
import { buildTree } from './build.ts';
import { layOut } from './package-source.ts';
import { mebibytes, runTool, stepsOf, writeFigures } from './run-tool.ts';
import type { Say } from './run-tool.ts';
import { architectureNamed, debianNameOf, sha256 } from './runtime.ts';
import { sourceDate } from './source-date.ts';

/** Makes a package of Debian from the tree of a build, for this machine's architecture or another. Two are equal, byte for byte. */

const run = promisify(execFile);
const project = resolve(import.meta.dirname, '../..');

const usage = `usage: npm run deb -- [--out DIR] [--arch amd64|arm64] [--json FILE]

  --out DIR     where the package goes (default: dist)
  --arch ARCH   of the gateway: amd64 or arm64 (default: this machine's)
  --json FILE   path, version, sizes and SHA-256, for programs
  --help        show this

Needs debhelper, and binutils for the architecture. SOURCE_DATE_EPOCH is the time of the last commit if it is not set; DEBFULLNAME
and DEBEMAIL are the maintainer.
`;

export interface DebOptions {
  readonly out: string;
  /** As in `process.arch`, or Debian's name of it. */
  readonly arch: string;
  /** The version of the package. */
  readonly version?: string;
  /** Compression option of dpkg-deb, such as `-Znone`; xz by default. */
  readonly compression?: string;
  /** The tree of a build; built if omitted. */
  readonly tree?: string;
  /** Receives each slow step; silent by default. */
  readonly say?: Say;
}

/** Resolves with the package's path, once it is whole. */
export async function buildDeb(options: DebOptions): Promise<string> {
  const { out, arch: name, compression = '-Zxz', say = () => {}, ...rest } = options;
  const arch = architectureNamed(name);
  const version = rest.version ?? agentVersion;
  const builtAt = await sourceDate();
  const work = await mkdtemp(join(tmpdir(), 'thing-agent-deb-'));
  try {
    const tree = rest.tree ?? join(work, 'tree');
    const main = join(project, 'src/main.ts');
    if (rest.tree === undefined) await buildTree({ out: tree, main, arch, strip: true, say });
    say('laying out pages, units and licenses');
    const source = join(work, 'source');
    await layOut({ tree, source, version, builtAt });
    const how = ['--build=binary', `--host-arch=${debianNameOf(arch)}`, '--no-check-builddeps', '--unsigned-changes'];
    say(`packing with dpkg-buildpackage (${compression.replace('-Z', '')}; the longest step)`);
    await debianTool('dpkg-buildpackage', [...how, '--unsigned-buildinfo'], {
      cwd: source,
      env: { SOURCE_DATE_EPOCH: String(builtAt), THING_COMPRESSION: compression },
    });
    return await moveIntoPlace(work, out);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** Written to a temporary path first. */
async function moveIntoPlace(folder: string, out: string): Promise<string> {
  const name = (await readdir(folder)).find((file) => file.endsWith('.deb'));
  if (name === undefined) throw new Error('dpkg-buildpackage made no package');
  await mkdir(out, { recursive: true });
  const place = join(out, name);
  await copyFile(join(folder, name), `${place}.new`);
  await rename(`${place}.new`, place);
  return place;
}

/** Properties of a package. */
export async function figuresOf(path: string) {
  const format = '${Version} ${Architecture} ${Installed-Size}';
  const { stdout } = await run('dpkg-deb', ['--show', '--showformat', format, path], { timeout: 60_000 });
  const [version, architecture, installedKib] = stdout.split(' ');
  const content = await readFile(path);
  const sizes = { bytes: content.byteLength, installedBytes: Number(installedKib) * 1024 };
  return { path, version, architecture, ...sizes, sha256: sha256(content) };
}

interface Surroundings {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
}

async function debianTool(program: string, args: readonly string[], { cwd, env }: Surroundings): Promise<string> {
  const all = { ...process.env, ...env, LC_ALL: 'C.UTF-8', DEB_BUILD_OPTIONS: 'nocheck noautodbgsym terse' };
  try {
    const { stdout } = await run(program, args, { cwd, env: all, timeout: 900_000, maxBuffer: 64 * 1024 * 1024 });
    return stdout;
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    if ('code' in error && error.code === 'ENOENT')
      throw new Error(`${program} is missing: apt-get install debhelper`, { cause: error });
    throw error;
  }
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2));

async function main(args: readonly string[]): Promise<number> {
  return runTool('deb', usage, async () => {
    const { values } = parseArgs({
      args: [...args],
      options: {
        out: { type: 'string', default: join(project, 'dist') },
        arch: { type: 'string', default: process.arch },
        json: { type: 'string' },
        help: { type: 'boolean', default: false },
      },
    });
    if (values.help) return void process.stdout.write(usage);
    const say = stepsOf('deb');
    const path = await buildDeb({ arch: values.arch, out: resolve(values.out), say });
    const figures = await figuresOf(path);
    await writeFigures(values.json, figures);
    say(`${mebibytes(figures.bytes)}, ${mebibytes(figures.installedBytes)} when it is installed`);
    process.stdout.write(`${path}\n`);
  });
}
