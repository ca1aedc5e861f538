import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join, relative, resolve } from 'node:path';

import { build, transform } from 'esbuild';
import type { Metafile, Plugin, TransformOptions } from 'esbuild';

import { agentVersion } from '../../src/version.ts';
import { lazyBuiltins } from './lazy-builtins.ts';

/**
 * Makes the files of the program. esbuild splits it into parts, so that what a command does not need is not read. But
 * each file costs a start half a millisecond: parts that nearly every command needs are bound into one sheaf, in
 * which each runs when it is first asked for. All are CommonJS, which a start reads in less time than ES modules.
 */

interface Sheaf {
  readonly file: string;
  /** Modules of the source. Their parts are bundled with their imports; a part of two sheaves is in the first. */
  readonly roots: readonly string[];
}

export const sheaves: readonly Sheaf[] = [
  { file: 'commands.js', roots: ['main.ts'] },
  {
    file: 'agent.js',
    roots: [
      'cli/screen/page.ts',
      'cli/screen/pages/render-reports.ts',
      'config/load-config.ts',
      'control/client/control-client.ts',
      'control/make-operations.ts',
      'system/log/pino-log.ts',
    ],
  },
  { file: 'engine.js', roots: ['daemon/local-agent.ts'] },
  {
    file: 'daemon.js',
    roots: ['daemon/cycles/run-daemon.ts', 'system/processes/systemd-notify.ts', 'system/time/cron.ts'],
  },
];

const project = resolve(import.meta.dirname, '../..');
/** A test builds others, which have other parts. */
const PROGRAM = join(project, 'src/main.ts');

/** Flat, so that files find each other by their folder. */
export async function bundle(outdir: string, main: string, arch: string): Promise<Metafile> {
  const { metafile, outputFiles } = await build({
    metafile: true,
    write: false,
    absWorkingDir: project,
    entryPoints: { main, 'hash-worker': 'src/slots/hash-worker.ts' },
    outdir,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node24',
    minifySyntax: true,
    minifyWhitespace: true,
    legalComments: 'linked',
    assetNames: '[name]',
    loader: { '.node': 'copy' },
    alias: withNodeStreams,
    define: withoutMilo,
    plugins: [prebuiltSerialport(arch), slimUndici(), slimMqtt(), versionOnly()],
    logLevel: 'warning',
  });
  await mkdir(outdir);
  const parts = new Map<string, string>();
  for (const { path, contents, text } of outputFiles) {
    const name = basename(path) === MAIN ? PROGRAM_FILE : basename(path);
    if (path.endsWith('.js')) parts.set(name, await asCommonJs(text));
    else await writeFile(path, contents);
  }
  const bound = main === PROGRAM ? sheaves : [];
  const files = bindSheaves(parts, bound, metafile);
  for (const [file, text] of files) await writeFile(join(outdir, file), text);
  await writeFile(join(outdir, MAIN), await loader([...files.values()]));
  return metafile;
}

/** The file that runs first and loads the others. Compiled code is cached under a digest of their text. */
async function loader(texts: readonly string[]): Promise<string> {
  const build = createHash('sha256').update(texts.join('')).digest('hex').slice(0, 16);
  const text = await readFile(join(project, 'src/load.ts'), 'utf8');
  return asCommonJs(text, { loader: 'ts', define: { BUILD: JSON.stringify(build) } });
}

/**
 * MQTT.js and mqtt-packet use a copy of Node's streams from npm; the bundle uses Node's own. A connection to a broker
 * then takes 1.2 MiB and 10 ms less, and the bundle contains 8 packages less. To remove it, delete these lines.
 */
const withNodeStreams = { 'readable-stream': 'node:stream' };

/**
 * undici has a second parser of HTTP, which only a variable of the environment selects. Without it the daemon takes
 * 0.2 MiB less. undici knows this name from the bundle of Node itself. To remove it, delete these lines.
 */
const withoutMilo = { esbuildDetection: 'true' };

async function asCommonJs(text: string, { define, ...more }: TransformOptions = {}): Promise<string> {
  const { code } = await transform(text, {
    ...more,
    format: 'cjs',
    platform: 'node',
    target: 'node24',
    supported: { 'dynamic-import': false }, // a part is required in any case
    define: {
      'import.meta.url': 'moduleUrl',
      'import.meta.dirname': '__dirname',
      ...define,
    },
    minifySyntax: true,
    minifyWhitespace: true,
  });
  const url = 'const moduleUrl=require("node:url").pathToFileURL(__filename).href;';
  return `"use strict";${code.includes('moduleUrl') ? url : ''}${lazyBuiltins(code)}`; // strict, as ES modules are
}

/** The program needs only the version of its package.json, which also holds the scripts of the source tree. */
function versionOnly(): Plugin {
  return {
    name: 'version-only',
    setup: (build) => {
      const contents = JSON.stringify({ version: agentVersion });
      build.onLoad({ filter: /[/\\]package\.json$/ }, ({ path }) =>
        path === join(project, 'package.json') ? { contents, loader: 'json' } : undefined,
      );
    },
  };
}

const MAIN = 'main.js';
/** The output of esbuild for `main.ts`; the loader, `main.js`, runs it. */
const PROGRAM_FILE = 'program.js';
const REQUIRED = /\brequire\("\.\/([\w.-]+\.js)"\)/g;

/** The files by their name: sheaves, and parts outside of them. The first file to run is one of these. */
function bindSheaves(
  parts: ReadonlyMap<string, string>,
  bound: readonly Sheaf[],
  metafile: Metafile,
): ReadonlyMap<string, string> {
  const sheafOf = new Map<string, string>();
  for (const { file, roots } of bound) {
    for (const part of partsFor(roots, metafile)) if (part !== MAIN && !sheafOf.has(part)) sheafOf.set(part, file);
  }
  const files = new Map<string, string>();
  for (const [name, code] of parts) {
    const linked = code.replaceAll(REQUIRED, (all, asked: string) => {
      const sheaf = sheafOf.get(asked);
      return sheaf === undefined ? all : `require("./${sheaf}")("${asked}")`;
    });
    const sheaf = sheafOf.get(name);
    if (sheaf === undefined) files.set(name, linked);
    else files.set(sheaf, `${files.get(sheaf) ?? SHEAF}${inSheaf(name, linked)}`);
  }
  return files;
}

/** Exports a function that returns what a part exports, which runs when it is first asked for. */
const SHEAF = `const parts=new Map,made=new Map;module.exports=name=>{if(!made.has(name)){const module={exports:{}};parts.get(name)(module,module.exports);made.set(name,module.exports)}return made.get(name)};
`;

/** In parentheses, by which V8 knows that it is compiled with the file. */
function inSheaf(name: string, code: string): string {
  return `parts.set("${name}",(function(module,exports){${code}
}));
`;
}

/** The parts of some modules of the source, and all that these import. */
function partsFor(roots: readonly string[], { outputs }: Metafile): Set<string> {
  const found = new Set<string>();
  const add = (path: string): void => {
    const output = outputs[path];
    if (output === undefined || found.has(basename(path))) return;
    found.add(basename(path));
    for (const { path: imported, kind } of output.imports) if (kind === 'import-statement') add(imported);
  };
  const sources = new Set(roots.map((root) => `src/${root}`));
  for (const [path, { entryPoint = '' }] of Object.entries(outputs)) if (sources.has(entryPoint)) add(path);
  return found;
}

/**
 * undici without parts that only cost memory: HTTP/2, which is switched off, would load `node:http2` (4 MiB). V8 would
 * compile its parser of HTTP, WebAssembly, again after a few update checks, for speed that no line to the service needs; what
 * it works in then stays with `malloc` (10 MiB). How soon it does is decided when the parser is made. The flag is put
 * back, since Node's own compiled code is for its default flags.
 */
function slimUndici(): Plugin {
  const begin = 'function lazyllhttp () {';
  const made = `function lazyllhttp () {
    const { setFlagsFromString } = require('node:v8')
    setFlagsFromString('--wasm-tiering-budget=2000000000')
    try { return makeLlhttp() } finally { setFlagsFromString('--wasm-tiering-budget=13000000') }
  }
  function makeLlhttp () {`;
  return {
    name: 'slim-undici',
    setup(build) {
      build.onLoad({ filter: /undici\/lib\/dispatcher\/client-h2\.js$/ }, () => ({
        contents: `module.exports = () => { throw new Error('HTTP/2 is left out'); };`,
      }));
      build.onLoad({ filter: /undici\/lib\/dispatcher\/client-h1\.js$/ }, async ({ path }) => {
        const text = await readFile(path, 'utf8');
        if (!text.includes(begin)) throw new Error(`${path} makes its parser in another way`);
        return { contents: text.replace(begin, made) };
      });
    },
  };
}

/**
 * MQTT.js without packages that it never uses here: WebSockets, SOCKS proxies, and the timers of browsers. They are 40 % of
 * its text. To remove it, delete the function.
 */
function slimMqtt(): Plugin {
  return {
    name: 'slim-mqtt',
    setup(build) {
      build.onResolve({ filter: /^(ws|socks|worker-timers)$/ }, ({ path }) => ({ path, namespace: 'left-out' }));
      build.onLoad({ filter: /./, namespace: 'left-out' }, () => ({ contents: 'module.exports = {};' }));
    },
  };
}

/** The native part of `serialport`, which looks for it with node-gyp-build at run time, is chosen when building. */
function prebuiltSerialport(arch: string): Plugin {
  const bindings = join(project, 'node_modules/@serialport/bindings-cpp');
  return {
    name: 'prebuilt-serialport',
    setup(build) {
      build.onResolve({ filter: /^node-gyp-build$/ }, async () => {
        const directory = join(bindings, 'prebuilds', `linux-${arch}`);
        const name = (await readdir(directory)).find((file) => file.endsWith('.glibc.node'));
        if (name === undefined) throw new Error(`${directory} has no prebuilt file for glibc`);
        return { path: relative(bindings, join(directory, name)), namespace: 'prebuilt' }; // its name is in what is built
      });
      build.onLoad({ filter: /./, namespace: 'prebuilt' }, ({ path }) => ({
        contents: `module.exports = () => require(${JSON.stringify(`./${path}`)});`,
        resolveDir: bindings,
      }));
    },
  };
}
