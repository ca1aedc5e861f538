import { chmod, cp, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import process from 'node:process';

import { agentPage } from '../pages/agent-page.ts';
import { bashCompletion, zshCompletion } from '../pages/completion.ts';
import { configPage } from '../pages/config-page.ts';
import { documents } from '../pages/documents.ts';
import { digestsOf } from './build.ts';
import { nativeDepends } from './native-needs.ts';
import { sha256 } from './runtime.ts';
import { withFiles } from './sbom.ts';

export interface PackageSource {
  /** The output of `npm run build`. */
  readonly tree: string;
  /** The directory for the source of the package. */
  readonly source: string;
  readonly version: string;
  /** In seconds since 1970. */
  readonly builtAt: number;
}

const HOME = 'usr/lib/thing-agent';
/** Images that are built without dpkg do not have what the agent wants there. */
const WANTS = 'lib/systemd/system/thing-agent.service.wants';
const DOCS = 'usr/share/doc/thing-agent';

/** The units and their scripts. */
const units = join(import.meta.dirname, '..');

/** Files of systemd/, and where they lie on a gateway. Units are moved below /usr by debian/rules. */
const places: Readonly<Record<string, string>> = {
  'trial-guard': `${HOME}/trial-guard`,
  'package-guard': `${HOME}/package-guard`,
  'debian/wait-for-update': `${HOME}/wait-for-update`,
  'thing-agent.service': 'lib/systemd/system/thing-agent.service',
  'thing-agent-package.socket': 'lib/systemd/system/thing-agent-package.socket',
  'thing-agent-package@.service': 'lib/systemd/system/thing-agent-package@.service',
  'thing-agent-trial.service': 'lib/systemd/system/thing-agent-trial.service',
  'thing-agent-trial.timer': 'lib/systemd/system/thing-agent-trial.timer',
  'thing-agent.sysusers': 'usr/lib/sysusers.d/thing-agent.conf',
  'thing-agent.tmpfiles': 'usr/lib/tmpfiles.d/thing-agent.conf',
  '99-thing-agent.rules': 'usr/lib/udev/rules.d/99-thing-agent.rules',
  'config.toml': 'etc/thing-agent/config.example.toml',
};

/** The input of debhelper: `root/`, laid out as on a gateway, and `debian/`. */
export async function layOut({ tree, source, version, builtAt }: PackageSource): Promise<void> {
  const root = join(source, 'root');
  for (const [file, place] of Object.entries(places)) {
    await mkdir(dirname(join(root, place)), { recursive: true });
    await cp(join(units, file), join(root, place));
  }
  await mkdir(join(root, WANTS));
  await symlink('../thing-agent-package.socket', join(root, WANTS, 'thing-agent-package.socket'));
  await layOutProgram(tree, root, version);
  const bill = await readFile(join(tree, 'sbom.cdx.json'), 'utf8');
  await layOutPages(root, version, builtAt);
  await writeFile(join(root, DOCS, 'sbom.cdx.json'), withFiles(bill, await digestsOf(root)));

  const debian = join(source, 'debian');
  await cp(join(units, 'debian'), debian, { recursive: true });
  const control = await readFile(join(debian, 'control'), 'utf8');
  const native = await nativeDepends(await programs(tree));
  const filled = control.replace('@MAINTAINER@', maintainer()).replace('@NATIVE@', native);
  await writeFile(join(debian, 'control'), filled);
  await writeFile(join(debian, 'changelog'), changelog(version, builtAt));
  await cp(join(tree, 'copyright'), join(debian, 'copyright'));
  await writeFile(
    join(debian, 'thing-agent.install'),
    (await readdir(root)).map((name) => `root/${name} /\n`).join(''),
  );
}

/** Pages for people, and completion for their shells. */
async function layOutPages(root: string, version: string, builtAt: number): Promise<void> {
  const texts = {
    'usr/share/man/man8/agent.8': agentPage({ version, builtAt }),
    'usr/share/man/man5/thing-agent.toml.5': configPage({ version, builtAt }),
    'usr/share/bash-completion/completions/agent': bashCompletion(),
    'usr/share/zsh/vendor-completions/_agent': zshCompletion(),
    ...Object.fromEntries(Object.entries(await documents()).map(([name, text]) => [`${DOCS}/${name}`, text])),
  };
  for (const [place, text] of Object.entries(texts)) {
    await mkdir(dirname(join(root, place)), { recursive: true });
    await writeFile(join(root, place), text);
  }
}

/**
 * dpkg renames the files of a package into their places one by one, in the order of their names. The program is in a
 * separate directory for each content, whose name starts with a digit, and is started by a file that comes after it. So
 * after any interruption of dpkg, the complete old or the complete new program starts.
 */
async function layOutProgram(tree: string, root: string, version: string): Promise<void> {
  const parts = ['agent', 'bin', 'lib'];
  const digests = [...(await digestsOf(tree))].filter(([path]) => parts.includes(path.split('/')[0] ?? ''));
  const folder = `${version}-${sha256(Buffer.from(JSON.stringify(digests))).slice(0, 12)}`;
  await mkdir(join(root, HOME, folder), { recursive: true });
  for (const part of parts) await cp(join(tree, part), join(root, HOME, folder, part), { recursive: true });
  const launcher = join(root, HOME, 'agent');
  await writeFile(launcher, `#!/bin/sh\nexec /${HOME}/${folder}/agent "$@"\n`);
  await chmod(launcher, 0o755);
  await mkdir(join(root, 'usr/bin'), { recursive: true });
  await symlink('../lib/thing-agent/agent', join(root, 'usr/bin/agent'));
}

async function programs(tree: string): Promise<readonly string[]> {
  const lib = await readdir(join(tree, 'lib'));
  return [
    join(tree, 'bin/node'),
    ...lib.filter((name) => name.endsWith('.node')).map((name) => join(tree, 'lib', name)),
  ];
}

/** As Debian's own tools find it (devscripts, "DEBEMAIL"). */
function maintainer(): string {
  const name = process.env['DEBFULLNAME'] ?? 'Thing Agent';
  return `${name} <${process.env['DEBEMAIL'] ?? 'thing-agent@things.example.com'}>`;
}

function changelog(version: string, builtAt: number): string {
  const date = new Date(builtAt * 1000).toUTCString().replace('GMT', '+0000');
  return `thing-agent (${version}) unstable; urgency=medium\n\n  * Thing Agent ${version}.\n\n -- ${maintainer()}  ${date}\n`;
}
