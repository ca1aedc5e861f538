import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { Metafile } from 'esbuild';
import { z } from 'zod';

import { agentVersion } from '../../src/version.ts';
import type { LicensedPart } from './licenses.ts';
import { pinnedRuntimes } from './runtime.ts';
import type { Architecture } from './runtime.ts';

const project = join(import.meta.dirname, '../..');

const packageJson = z.object({
  name: z.string(),
  version: z.string(),
  license: z.string().optional(),
  description: z.string().optional(),
});

const lockFile = z.object({
  packages: z.record(z.string(), z.object({ integrity: z.string().optional() })),
});

/** Files of the tree, by their path in it, with their SHA-256 in hexadecimal. */
export type Digests = ReadonlyMap<string, string>;

/**
 * The content of a built tree, as CycloneDX 1.6 (cyclonedx.org/docs/1.6/json): the packages whose code the bundler took, and the
 * runtime. It has neither a time nor a random serial number, so that two builds of one source are equal.
 */
export async function billOfMaterials(
  folders: readonly string[],
  arch: Architecture,
  digests: Digests,
  isPinned: boolean,
): Promise<string> {
  const lock = lockFile.parse(JSON.parse(await readFile(join(project, 'package-lock.json'), 'utf8')));
  const bundled = await Promise.all(folders.map(async (folder) => component(folder, lock.packages[folder]?.integrity)));
  const bom = {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: { component: agent },
    components: [...bundled, await runtimeComponent(arch, digests.get('bin/node'), isPinned)],
    dependencies: [{ ref: agent['bom-ref'], dependsOn: [...bundled.map((one) => one['bom-ref']), RUNTIME] }],
    properties: filesOf(digests),
  };
  return `${JSON.stringify(bom, null, 2)}\n`;
}

/** Returns the directories of the packages whose code the bundler took, below the project. */
export function bundledPackages(outputs: Metafile['outputs']): readonly string[] {
  const taken = Object.values(outputs).flatMap(({ inputs }) => Object.entries(inputs));
  const folders = taken.flatMap(([path, { bytesInOutput }]) =>
    bytesInOutput === 0 ? [] : (packageFolder(path) ?? []),
  );
  return [...new Set(folders)].sort();
}

/** Returns the parts of the program that have licenses of their own: the packages, and the runtime. */
export async function licensedParts(
  folders: readonly string[],
  runtimeDirectories: readonly string[],
): Promise<readonly LicensedPart[]> {
  const packages = folders.map(async (folder) => {
    const { name, version } = packageJson.parse(
      JSON.parse(await readFile(join(project, folder, 'package.json'), 'utf8')),
    );
    return { title: `${name} ${version}`, directories: [join(project, folder)] };
  });
  const runtime = 'Node.js (the runtime, with the libraries that are part of it)';
  return [...(await Promise.all(packages)), { title: runtime, directories: runtimeDirectories }];
}

/** The same bill for files that lie elsewhere. */
export function withFiles(bill: string, digests: Digests): string {
  const bom = z.looseObject({}).parse(JSON.parse(bill));
  return `${JSON.stringify({ ...bom, properties: filesOf(digests) }, null, 2)}\n`;
}

function filesOf(digests: Digests): readonly object[] {
  return [...digests].map(([path, digest]) => ({ name: `file:${path}`, value: `sha256:${digest}` }));
}

const RUNTIME = 'runtime';

/**
 * The licenses of Node and of the libraries in its program. Source: LICENSE of Node 24.21.0, without the parts for tests
 * and tools, and without npm.
 */
export const RUNTIME_LICENSES =
  'MIT AND Apache-2.0 AND BSD-2-Clause AND BSD-3-Clause AND BlueOak-1.0.0 AND ISC AND Unicode-3.0 AND Zlib';

const agent = {
  type: 'application',
  'bom-ref': `pkg:npm/thing-agent@${agentVersion}`,
  name: 'thing-agent',
  version: agentVersion,
  licenses: [{ license: { id: 'Apache-2.0' } }],
} as const;

/** `node_modules/a`, `node_modules/@b/c` or a nested package; undefined for a file of the project or of the bundler. */
function packageFolder(path: string): string | undefined {
  return /^(?:node_modules\/(?:@[^/]+\/)?[^/]+\/)+/.exec(path)?.[0].slice(0, -1);
}

interface Component {
  readonly 'bom-ref': string;
  readonly [field: string]: unknown;
}

async function component(folder: string, integrity: string | undefined): Promise<Component> {
  const { name, version, license, description } = packageJson.parse(
    JSON.parse(await readFile(join(project, folder, 'package.json'), 'utf8')),
  );
  const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`;
  return {
    type: 'library',
    'bom-ref': purl,
    name,
    version,
    purl,
    ...(description === undefined ? {} : { description }),
    ...(license === undefined ? {} : { licenses: [licenseOf(license)] }),
    ...(integrity === undefined ? {} : { hashes: [hashOf(integrity)] }),
  };
}

function licenseOf(license: string): object {
  return /^[\w.+-]+$/.test(license) ? { license: { id: license } } : { expression: license };
}

/** An integrity value of a lock file (W3C, "Subresource Integrity"), as CycloneDX writes it. */
function hashOf(integrity: string): object {
  const [algorithm = '', digest = ''] = integrity.split('-');
  return { alg: algorithm.replace('sha', 'SHA-'), content: Buffer.from(digest, 'base64').toString('hex') };
}

/** Another runtime than the pinned one has no version here: its program may not run on this machine. */
async function runtimeComponent(arch: Architecture, sha256: string | undefined, isPinned: boolean): Promise<object> {
  const { version } = await pinnedRuntimes();
  return {
    type: 'platform',
    'bom-ref': RUNTIME,
    name: 'node',
    ...(isPinned ? { version, purl: `pkg:npm/node-linux-${arch}@${version}` } : {}),
    licenses: [{ expression: RUNTIME_LICENSES }],
    ...(sha256 === undefined ? {} : { hashes: [{ alg: 'SHA-256', content: sha256 }] }),
  };
}
