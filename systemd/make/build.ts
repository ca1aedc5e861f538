import { execFile } from 'node:child_process';
import { existsSync, globSync } from 'node:fs';
import {
  chmod,
  copyFile,
  cp,
  link,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { parseArgs, promisify } from 'node:util';

import { agentVersion } from '../../src/version.ts';
import { bundle } from './bundle.ts';
import { copyrightText } from './licenses.ts';
import { runTool, stepsOf } from './run-tool.ts';
import type { Say } from './run-tool.ts';
import {
  architectureNamed,
  copyGivenRuntime,
  copyPinnedRuntime,
  debianNameOf,
  givenLicenseDirectories,
  pinnedLicenseDirectories,
  sha256,
  stripProgram,
} from './runtime.ts';
import type { Architecture } from './runtime.ts';
import { billOfMaterials, bundledPackages, licensedParts } from './sbom.ts';
import { sourceDate } from './source-date.ts';

/**
 * Makes the installable tree: the launcher, the runtime, the program in few small files, what systemd needs, and the bill
 * of materials. Two builds of one source are equal, byte for byte and mode for mode, wherever and by whomever they are made.
 */

const usage = `usage: npm run build -- [--out DIR] [--arch x64|arm64] [--node FILE] [--strip] [--tar]

  --out DIR     where the tree goes (default: dist). Its former content, except packages and archives, is replaced
                when the new tree is complete
  --arch ARCH   architecture of the gateway: x64 (amd64) or arm64 (default: this machine's)
  --node FILE   use this runtime instead of the pinned one. Its license text is expected in LICENSE of the directory
                above its own, as in Node's archives, or in share/doc/nodejs there, as in Debian
  --strip       remove the runtime's debug symbols; needs binutils for the architecture
  --tar         put thing-agent-VERSION-ARCH.tar.gz into DIR instead of the tree. Two archives of one source are equal
  --help        show this
`;

const project = resolve(import.meta.dirname, '../..');
const OWNER_MAY_RUN = 0o100;

export interface BuildOptions {
  readonly out: string;
  /** The program's entry. */
  readonly main: string;
  /** As in `process.arch`. */
  readonly arch: string;
  /** Node's program for that architecture, if not the pinned one. */
  readonly node?: string | undefined;
  /** True to strip the debug symbols of the runtime. */
  readonly strip?: boolean;
  /** Receives each slow step; silent by default. */
  readonly say?: Say;
}

/** The tree is made next to its path and renamed in one step: a failed build keeps the old one. */
export async function buildTree(options: BuildOptions): Promise<void> {
  const { out, main, arch: name, node, strip = false, say = () => {} } = options;
  const arch = architectureNamed(name);
  const draft = `${out}.new`;
  await requireFormerTree(out);
  await rm(draft, { recursive: true, force: true });
  try {
    await fillTree(draft, { main, arch, node, strip, say });
    await keepPackages(out, draft);
  } catch (error) {
    await rm(draft, { recursive: true, force: true });
    throw error;
  }
  await rm(`${out}.old`, { recursive: true, force: true });
  await rename(out, `${out}.old`).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
  });
  await rename(draft, out);
  await rm(`${out}.old`, { recursive: true, force: true });
}

const treeParts: ReadonlySet<string> = new Set([
  'LICENSE',
  'agent',
  'bin',
  'copyright',
  'lib',
  'sbom.cdx.json',
  'systemd',
]);

/** Throws if the directory has files that no build put there: they would be lost. */
async function requireFormerTree(out: string): Promise<void> {
  const names = existsSync(out) ? await readdir(out) : [];
  const foreign = names.find((name) => !treeParts.has(name) && !/\.(?:deb|tar\.gz)$/.test(name));
  if (foreign !== undefined)
    throw new Error(`${out} would be replaced, and holds ${foreign}: name another directory with --out`);
}

/** Keeps packages and archives, which other builds put into the same directory. They are linked, so that a failed build removes none. */
async function keepPackages(out: string, draft: string): Promise<void> {
  for (const name of globSync('*.{deb,tar.gz}', { cwd: out })) await link(join(out, name), join(draft, name));
}

/** Packs a built tree into an archive in `out`. Resolves with its path once it is complete. */
export async function packTree(tree: string, arch: string, out: string): Promise<string> {
  const root = `thing-agent-${agentVersion}`;
  const place = join(out, `${root}-${debianNameOf(architectureNamed(arch))}.tar.gz`);
  await mkdir(out, { recursive: true });
  const like = ['--sort=name', `--mtime=@${await sourceDate()}`, '--owner=0', '--group=0', '--numeric-owner'];
  const words = ['--create', '--format=gnu', ...like, `--transform=s,^[.],${root},S`, `--file=${place}.new`];
  try {
    const all = [...words, '--use-compress-program=gzip -n', `--directory=${tree}`, '.'];
    await promisify(execFile)('tar', all, { timeout: 600_000 });
    await rename(`${place}.new`, place);
  } finally {
    await rm(`${place}.new`, { force: true });
  }
  return place;
}

/** Puts an archive with a new tree into `out`. Resolves with its path. */
export async function buildArchive({ out, ...options }: BuildOptions): Promise<string> {
  const work = await mkdtemp(join(tmpdir(), 'thing-agent-tar-'));
  try {
    await buildTree({ ...options, out: join(work, 'tree') });
    options.say?.('packing');
    return await packTree(join(work, 'tree'), options.arch, out);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

interface Filling {
  readonly main: string;
  readonly arch: Architecture;
  readonly node: string | undefined;
  readonly strip: boolean;
  readonly say: Say;
}

async function fillTree(out: string, { main, arch, node, strip, say }: Filling): Promise<void> {
  await mkdir(join(out, 'bin'), { recursive: true });
  const runtime = join(out, 'bin/node');
  say(node === undefined ? `the runtime for ${arch}, from npm if it is not here yet` : `the runtime ${node}`);
  await (node === undefined ? copyPinnedRuntime(arch, runtime) : copyGivenRuntime(node, arch, runtime));
  await chmod(runtime, 0o755);
  if (strip) {
    say('stripping the runtime');
    await stripProgram(runtime, arch);
  }
  say('bundling the program');
  const { outputs } = await bundle(join(out, 'lib'), main, arch);
  for (const asset of ['page.css', 'page.js']) {
    await copyFile(join(project, 'src/web', asset), join(out, 'lib', asset));
  }
  // explicit, or Node searches the parent directories for it
  await writeFile(join(out, 'lib/package.json'), '{ "type": "commonjs" }\n');
  await copyFile(join(project, 'agent'), join(out, 'agent'));
  await copyFile(join(project, 'LICENSE'), join(out, 'LICENSE'));
  await cp(join(project, 'systemd'), join(out, 'systemd'), {
    recursive: true,
    filter: (source) => !/\.ts$|\/(?:make|debian|yocto|buildroot|doc)$/.test(source),
  });
  await cp(join(project, 'docs/bootloaders'), join(out, 'systemd/images/bootloaders'), { recursive: true });
  const packages = bundledPackages(outputs);
  const runtimeLicense = node === undefined ? pinnedLicenseDirectories() : givenLicenseDirectories(node);
  await writeFile(join(out, 'copyright'), await copyrightText(await licensedParts(packages, runtimeLicense)));
  await writeFile(
    join(out, 'sbom.cdx.json'),
    await billOfMaterials(packages, arch, await digestsOf(out), node === undefined),
  );
  await fixModes(out);
}

/** Independent of the umask, here and in the checkout. */
async function fixModes(folder: string): Promise<void> {
  await chmod(folder, 0o755);
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const place = join(entry.parentPath, entry.name);
    const isProgram = entry.isDirectory() || ((await stat(place)).mode & OWNER_MAY_RUN) !== 0;
    await chmod(place, isProgram ? 0o755 : 0o644);
  }
}

export async function digestsOf(folder: string): Promise<ReadonlyMap<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const digests = await Promise.all(
    files.sort().map(async (file) => [relative(folder, file), sha256(await readFile(file))] as const),
  );
  return new Map(digests);
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2));

async function main(args: readonly string[]): Promise<number> {
  return runTool('build', usage, async () => {
    const { values } = parseArgs({
      args: [...args],
      options: {
        out: { type: 'string', default: join(project, 'dist') },
        main: { type: 'string', default: join(project, 'src/main.ts') },
        arch: { type: 'string', default: process.arch },
        node: { type: 'string' },
        strip: { type: 'boolean', default: false },
        tar: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    });
    if (values.help) return void process.stdout.write(usage);
    const out = resolve(values.out);
    const { arch, node, strip } = values;
    const options: BuildOptions = { arch, node, strip, out, main: resolve(values.main), say: stepsOf('build') };
    if (!values.tar) await buildTree(options);
    process.stdout.write(`${values.tar ? await buildArchive(options) : out}\n`);
  });
}
