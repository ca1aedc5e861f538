import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { gzipSync } from 'node:zlib';

import { systemErrorCode } from '../../src/system/errors.ts';
import { mebibytes, Misuse, runTool, stepsOf, writeFigures } from './run-tool.ts';

/** Makes a repository for apt of the packages in a folder, signed by a key of gpg's. */

const run = promisify(execFile);

const usage = `usage: npm run repo -- DIR --key KEY [--json FILE]

  DIR           where the packages lie; dists/ and thing-agent.gpg (the public key) are made there
  --key KEY     of gpg(1): a fingerprint, or an address
  --json FILE   what the packages are, for programs
  --help        show this

Serve DIR by any web server. On a gateway, with thing-agent.gpg in /etc/apt/keyrings:
  deb [signed-by=/etc/apt/keyrings/thing-agent.gpg] https://… stable main
`;

const architectures = ['amd64', 'arm64'] as const;

/** The old index stays until the new one is whole. `keyring` is gpg's folder; its usual one if not given. Resolves with the packages. */
export async function makeRepository(folder: string, key: string, keyring?: string): Promise<readonly Packed[]> {
  const packages = await packagesIn(folder);
  if (packages.length === 0) throw new Error(`${folder} holds no packages: npm run deb -- --out ${folder} makes one`);
  const draft = await mkdtemp(join(folder, '.dists-'));
  const named: Packed[] = [];
  try {
    for (const architecture of architectures) {
      const place = join(draft, `main/binary-${architecture}`);
      await mkdir(place, { recursive: true });
      const index = await tool('apt-ftparchive', ['--arch', architecture, 'packages', '.'], folder);
      named.push(...packagesOf(index, architecture));
      await writeFile(join(place, 'Packages'), index);
      await writeFile(join(place, 'Packages.gz'), gzipSync(index));
    }
    refuseLeftOut(packages.filter((path) => !named.some((found) => found.path === path)));
    await writeFile(join(draft, 'Release'), await release(draft));
    const gpg = ['--batch', '--yes', ...(keyring === undefined ? [] : ['--homedir', keyring])];
    const sign = [...gpg, '--local-user', key];
    await tool('gpg', [...sign, '--clearsign', '--output', 'InRelease', 'Release'], draft);
    await tool('gpg', [...sign, '--armor', '--detach-sign', '--output', 'Release.gpg', 'Release'], draft);
    await tool('gpg', [...gpg, '--export', '--output', join(folder, 'thing-agent.gpg'), key], draft);
    await tool('chmod', ['-R', 'u=rwX,go=rX', draft], folder);
    await exchange(draft, join(folder, 'dists'));
    return named;
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

/** A package in the index of one architecture; one for all is in each. */
interface Packed {
  readonly path: string;
  readonly version: string;
  readonly architecture: string;
  readonly bytes: number;
}

function packagesOf(index: string, architecture: string): readonly Packed[] {
  return index
    .split(/\n\n+/)
    .filter((entry) => entry.includes('Filename: '))
    .map((entry) => {
      const field = (name: string): string => new RegExp(`^${name}: (.*)$`, 'm').exec(entry)?.[1] ?? '';
      const path = field('Filename').replace(/^\.\//, '');
      return { path, version: field('Version'), architecture, bytes: Number(field('Size')) };
    });
}

/** Paths in the folder. */
async function packagesIn(folder: string): Promise<readonly string[]> {
  try {
    return (await readdir(folder, { recursive: true })).filter((path) => path.endsWith('.deb')).toSorted();
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT') return [];
    if (systemErrorCode(error) === 'ENOTDIR') throw new Error(`${folder} is not a folder`, { cause: error });
    throw error;
  }
}

/** apt-ftparchive leaves out what it cannot read, and is content. */
function refuseLeftOut(paths: readonly string[]): void {
  if (paths.length === 0) return;
  const wanted = `NAME_VERSION_ARCH.deb for ${architectures.join(', ')} or all`;
  throw new Error(`nothing was signed: these are no packages (${wanted}), or are damaged: ${paths.join(', ')}`);
}

async function exchange(draft: string, dists: string): Promise<void> {
  const [stable, old] = [join(dists, 'stable'), join(dists, '.old')];
  await mkdir(dists, { recursive: true });
  await rm(old, { recursive: true, force: true });
  await rename(stable, old).catch((error: unknown) => {
    if (systemErrorCode(error) !== 'ENOENT') throw error;
  });
  await rename(draft, stable);
  await rm(old, { recursive: true, force: true });
}

async function release(dists: string): Promise<string> {
  const fields = {
    Origin: 'Thing Agent',
    Label: 'Thing Agent',
    Suite: 'stable',
    Codename: 'stable',
    Architectures: architectures.join(' '),
    Components: 'main',
  };
  const options = Object.entries(fields).flatMap(([name, value]) => [
    '-o',
    `APT::FTPArchive::Release::${name}=${value}`,
  ]);
  return tool('apt-ftparchive', [...options, 'release', '.'], dists);
}

async function tool(program: string, args: readonly string[], cwd: string): Promise<string> {
  try {
    const { stdout } = await run(program, args, { cwd, timeout: 300_000, maxBuffer: 64 * 1024 * 1024 });
    return stdout;
  } catch (error) {
    if (systemErrorCode(error) !== 'ENOENT') throw error;
    throw new Error(`${program} is missing: apt-get install apt-utils gpg`, { cause: error });
  }
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2));

async function main(args: readonly string[]): Promise<number> {
  return runTool('repo', usage, async () => {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: { key: { type: 'string' }, json: { type: 'string' }, help: { type: 'boolean', default: false } },
    });
    const [folder, ...others] = positionals;
    if (values.help) return void process.stdout.write(usage);
    if (folder === undefined || values.key === undefined) throw new Misuse('DIR and --key are needed');
    if (others.length > 0) throw new Misuse(`one DIR is taken, not also ${others.join(' ')}`);
    const packages = await makeRepository(resolve(folder), values.key);
    await writeFigures(values.json, { folder: resolve(folder), packages });
    for (const { path, architecture, bytes } of packages)
      stepsOf('repo')(`${path}, for ${architecture}, ${mebibytes(bytes)}`);
  });
}
