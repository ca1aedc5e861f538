import { createHash, randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';

import { tool } from '../tool.ts';

export interface DebianRecipe {
  readonly packages: readonly string[];
  /** Debian's name of it; this machine's, if not given. For another one qemu-user must be registered in binfmt_misc. */
  readonly architecture?: string;
  /** Shell commands at the end, in the root file system. */
  readonly finish?: string;
}

/** The minimum that boots in a container: systemd, and the agent's requirements of README.md. */
const container: DebianRecipe = {
  packages: ['systemd-sysv', 'dbus', 'passwd', 'libstdc++6', 'util-linux', 'libubootenv-tool'],
  // At each boot and reload, systemd starts a dozen programs that such a machine does not need; it may have an fstab.
  finish: `
    mkdir etc/systemd/system-generators
    for it in usr/lib/systemd/system-generators/*; do ln -s /dev/null "etc/systemd/system-generators/\${it##*/}"; done
    rm etc/systemd/system-generators/systemd-fstab-generator`,
};
const leftOut = ['doc', 'man', 'info', 'locale', 'zoneinfo'].map((name) => `/usr/share/${name}/*`);

function mmdebstrapOptions({ packages, architecture, finish }: DebianRecipe): readonly string[] {
  return [
    '--variant=essential',
    `--include=${packages.join(',')}`,
    ...(architecture === undefined ? [] : ['--skip=check/qemu', `--architectures=${architecture}`]),
    ...leftOut.map((path) => `--dpkgopt=path-exclude=${path}`),
    ...(finish === undefined ? [] : [`--customize-hook=cd "$1" && { ${finish.trim()}\n}`]),
  ];
}

/**
 * A root file system of this machine's own distribution, as a tar file: made once, from this machine's own package
 * sources, and kept until its recipe changes. With TEST_DEBIAN=trixie it is another release of it.
 */
export async function debianRootFileSystem(wanted: DebianRecipe = container): Promise<string> {
  const options = mmdebstrapOptions(wanted);
  const own = await codenameOfThisMachine();
  const codename = process.env['TEST_DEBIAN'] ?? own;
  const recipe = createHash('sha256')
    .update([codename, process.arch, ...options].join('\n'))
    .digest('hex');
  const folder = keptFolder();
  const kept = join(folder, `debian-${recipe.slice(0, 16)}.tar`);
  if (existsSync(kept)) return kept;
  await mkdir(folder, { recursive: true });
  const draft = join(folder, `draft-${randomUUID()}.tar`);
  try {
    const sources = await packageSources(own, codename);
    const once = ['flock', `${kept}.lock`, 'sh', '-c', makeUnlessThere, 'sh', kept, draft] as const;
    await tool([...once, ...options, codename, draft, '-'], {
      timeoutMs: wanted.architecture === undefined ? 900_000 : 3_600_000,
      input: sources,
    });
  } finally {
    await rm(draft, { force: true });
  }
  return kept;
}

/** Directory for results that take long to make. */
export function keptFolder(): string {
  return join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'thing-agent-test');
}

/**
 * Several tests may want it concurrently: one makes it, the others wait. A kernel in it gets no initrd, which takes
 * minutes to make.
 */
const makeUnlessThere =
  'kept=$1 draft=$2; shift 2; [ -e "$kept" ] || { INITRD=No mmdebstrap "$@" && mv "$draft" "$kept"; }';

export async function codenameOfThisMachine(): Promise<string> {
  const found = /^VERSION_CODENAME=["']?([a-z]+)/m.exec(await readFile('/etc/os-release', 'utf8'))?.[1];
  if (found === undefined) throw new Error('/etc/os-release names no release to make a root file system of');
  return found;
}

/**
 * This machine's package sources of its own release, without third parties (apt-get(8), indextargets); the same for
 * another release.
 */
export async function packageSources(own: string, codename: string): Promise<string> {
  const format = '$(REPO_URI) $(RELEASE) $(COMPONENT)';
  const targets = await tool(['apt-get', 'indextargets', '--format', format, 'Created-By: Packages']);
  const lines = targets
    .split('\n')
    .filter((line) => new RegExp(`^\\S+ ${own}(-updates|-security)? (main|universe)$`).test(line));
  if (lines.length === 0) throw new Error(`apt has no sources of ${own}`);
  return [...new Set(lines)].map((line) => `deb ${line.replace(` ${own}`, ` ${codename}`)}\n`).join('');
}
