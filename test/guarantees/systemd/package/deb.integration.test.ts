import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';

import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { buildTree } from '../../../../systemd/make/build.ts';
import { buildDeb, figuresOf } from '../../../../systemd/make/deb.ts';
import { sha256 } from '../../../../systemd/make/runtime.ts';
import { tool } from '../../../fakes/machine/tool.ts';
import { testInFull } from '../../../full-run.ts';
import { howMuch } from '../../../full.ts';
import { newDirectory, run } from '../installed-root.ts';

/**
 * The package for arm64, made on any machine with a small program instead of the runtime, so that packing is quick.
 * package-life.integration installs a real one, in full.
 */

const project = resolve(import.meta.dirname, '../../../..');
let directory: string;
let tree: string;
let deb: string;
/** The steps that the build printed. */
const steps: string[] = [];

beforeAll(async () => {
  directory = await newDirectory();
  tree = join(directory, 'tree');
  const node = await smallArmProgram();
  await buildTree({ out: tree, main: join(project, 'src/main.ts'), arch: 'arm64', node, strip: true });
  const say = (step: string): void => void steps.push(step);
  deb = await buildDeb({ out: join(directory, 'out'), arch: 'arm64', tree, say });
});

afterAll(async () => {
  await rm(directory, { recursive: true });
});

/** A program that needs glibc, as those for Linux do. The library that it is linked with has only the name. */
async function smallArmProgram(): Promise<string> {
  const path = (name: string): string => join(directory, 'runtime/bin', name);
  await mkdir(join(directory, 'runtime/bin'), { recursive: true });
  await writeFile(join(directory, 'runtime/LICENSE'), 'The license of the runtime');
  await writeFile(path('small.s'), '.global _start\n_start: b _start\n');
  await tool(['aarch64-linux-gnu-as', '-o', path('small.o'), path('small.s')]);
  const link = ['aarch64-linux-gnu-ld', '-z', 'now'] as const;
  await tool([...link, '-shared', '-soname', 'libc.so.6', '-o', path('libc.so.6'), path('small.o')]);
  const dynamic = ['-pie', '--no-as-needed', '--dynamic-linker', '/lib/ld-linux-aarch64.so.1'];
  await tool([...link, ...dynamic, '-o', path('small'), path('small.o'), path('libc.so.6')]);
  return path('small');
}

describe('a package', () => {
  test('is named after its architecture, and asks for the libraries that its native parts need', async () => {
    expect(deb).toMatch(/\/thing-agent_[\d.]+_arm64\.deb$/);
    expect(await tool(['dpkg-deb', '--field', deb, 'Architecture'])).toBe('arm64');
    expect(await tool(['dpkg-deb', '--field', deb, 'Depends'])).toMatch(
      /^libc6 \(>= 2\.28\), libgcc-s1, libstdc\+\+6 \(>= 5\.1\), systemd \|/,
    );
    expect(await figuresOf(deb)).toMatchObject({
      path: deb,
      architecture: 'arm64',
      sha256: sha256(await readFile(deb)),
    });
  });

  // Regression: no output for the minutes that packing takes on a busy machine.
  test('is packed in steps, each of which is printed as it begins', () => {
    expect(steps).toEqual([
      'laying out pages, units and licenses',
      'packing with dpkg-buildpackage (xz; the longest step)',
    ]);
  });

  testInFull('is the same twice, byte for byte', async () => {
    const again = await buildDeb({ out: join(directory, 'again'), arch: 'arm64', tree });
    expect(sha256(await readFile(again))).toBe(sha256(await readFile(deb)));
  });

  test.each(howMuch(['lintian'], []))(
    'has nothing that %s complains about, except for the documented exceptions',
    async (judge) => {
      const said = ['sh', '-c', '"$1" --allow-root "$2" 2>&1 || :', 'sh', judge, deb] as const;
      expect(await tool(said, { timeoutMs: 200_000 })).toBe('');
    },
  );

  test('starts the program by a file that dpkg replaces after all other files of the program', async () => {
    const paths = (await tool(['sh', '-c', 'dpkg-deb --fsys-tarfile "$1" | tar -t', 'sh', deb])).split('\n');
    const launcher = paths.indexOf('./usr/lib/thing-agent/agent');
    const program = paths.filter((path) => /^\.\/usr\/lib\/thing-agent\/\d/.test(path));
    expect(program.length).toBeGreaterThan(30);
    expect(Math.max(...program.map((path) => paths.indexOf(path)))).toBeLessThan(launcher);
  });

  test('lists each file of the program in its bill of materials, as installed', async () => {
    const root = join(directory, 'root');
    await tool(['dpkg-deb', '--extract', deb, root]);
    const bom = JSON.parse(await readFile(join(root, 'usr/share/doc/thing-agent/sbom.cdx.json'), 'utf8')) as {
      readonly properties: readonly { readonly name: string; readonly value: string }[];
    };
    const files = bom.properties.filter(({ name }) => name.startsWith('file:usr/lib/thing-agent/'));
    expect(files.length).toBeGreaterThan(30);
    const digests = files.map(async ({ name }) => sha256(await readFile(join(root, name.replace('file:', '')))));
    expect(files.map(({ value }) => value)).toEqual((await Promise.all(digests)).map((digest) => `sha256:${digest}`));
  });

  test('names nothing that only the source tree has', async () => {
    const places = [
      'etc',
      'usr/bin',
      'usr/share',
      'usr/lib/systemd',
      'usr/lib/thing-agent/trial-guard',
      'usr/lib/thing-agent/package-guard',
      'usr/lib/udev',
    ];
    const path = '(^|[^[:alnum:]_/.-])(src|test|systemd|node_modules)/[[:alnum:]_./-]+|npm (run|ci)';
    const words = ['-roE', '--exclude=copyright', path, ...places.map((place) => join(directory, 'root', place))];
    expect(await run('grep', ...words)).toEqual({ exitCode: 1, output: '' });
  });

  test('has the license texts of everything in it', async () => {
    const text = await readFile(join(directory, 'root/usr/share/doc/thing-agent/copyright'), 'utf8');
    for (const name of ['undici', 'zod', 'mqtt', '@serialport/bindings-cpp', 'Node.js'])
      expect(text).toMatch(new RegExp(`^${name} [\\d(]`, 'm'));
    expect(text).toContain('Permission is hereby granted');
    expect(text).toContain('The license of the runtime');
  });
});

describe('a package that cannot be made', () => {
  test('keeps the existing one and leaves no other file', async () => {
    const out = join(directory, 'kept');
    await mkdir(out);
    await writeFile(join(out, 'thing-agent_1_arm64.deb'), 'the old one');
    await expect(buildDeb({ out, arch: 'armv7', tree })).rejects.toThrow('there is no runtime for armv7');
    const half = join(directory, 'half');
    await tool(['cp', '-r', tree, half]);
    await rm(join(half, 'lib'), { recursive: true });
    await expect(buildDeb({ out, arch: 'arm64', tree: half, version: '1' })).rejects.toThrow(Error);
    expect(await readdir(out)).toEqual(['thing-agent_1_arm64.deb']);
    expect(await readFile(join(out, 'thing-agent_1_arm64.deb'), 'utf8')).toBe('the old one');
  });

  test('reports the reason in one line', async () => {
    expect(await run(process.execPath, join(project, 'systemd/make/deb.ts'), '--arch', 'armv7')).toEqual({
      exitCode: 1,
      output: 'deb: there is no runtime for armv7: build for x64 (amd64) or arm64\n',
    });
  });
});
