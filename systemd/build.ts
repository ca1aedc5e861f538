import { chmod, copyFile, cp, mkdir, readdir, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

import { build, type Plugin } from 'esbuild';

/**
 * Makes the installable tree: the launcher, the runtime, the program in few small files, and what systemd needs.
 *
 *     node systemd/build.ts [--out DIR] [--main FILE] [--arch ARCH --node FILE]
 *
 * For a gateway of another architecture name it (`arm64`) and give Node's program for it.
 */

const project = resolve(import.meta.dirname, '..');

export interface BuildOptions {
  readonly out: string;
  /** The program's entry. */
  readonly main: string;
  /** As in `process.arch`. */
  readonly arch: string;
  /** Node's program for that architecture. */
  readonly node: string;
}

export async function buildTree({ out, main, arch, node }: BuildOptions): Promise<void> {
  await rm(out, { recursive: true, force: true });
  await bundle(join(out, 'lib'), main, arch);
  await mkdir(join(out, 'bin'));
  await copyFile(node, join(out, 'bin', 'node'));
  await chmod(join(out, 'bin', 'node'), 0o755);
  await copyFile(join(project, 'agent'), join(out, 'agent'));
  await copyFile(join(project, 'LICENSE'), join(out, 'LICENSE'));
  await cp(import.meta.dirname, join(out, 'systemd'), {
    recursive: true,
    filter: (source) => !source.endsWith('.ts'),
  });
}

/** Split, so that what a command does not need is not read; flat, so that files find each other by `import.meta.url`. */
async function bundle(outdir: string, main: string, arch: string): Promise<void> {
  await build({
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
    banner: {
      js: "import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url);",
    },
    define: { __dirname: 'import.meta.dirname', __filename: 'import.meta.filename' },
    plugins: [prebuiltSerialport(arch), slimHttp()],
    logLevel: 'warning',
  });
}

/**
 * What nobody uses is not loaded. An ES import of `node:http` reads all of its exports, and one of them, `WebSocket`,
 * loads another undici (12 MiB): it is required instead, which reads none. undici's HTTP/2, which is switched off, would
 * load `node:http2` (4 MiB).
 */
function slimHttp(): Plugin {
  return {
    name: 'slim-http',
    setup(build) {
      build.onResolve({ filter: /^node:http$/ }, ({ kind, path }) =>
        kind === 'import-statement' ? { path, namespace: 'required' } : { path, external: true },
      );
      build.onLoad({ filter: /./, namespace: 'required' }, ({ path }) => ({
        contents: `module.exports = require(${JSON.stringify(path)});`,
      }));
      build.onLoad({ filter: /undici\/lib\/dispatcher\/client-h2\.js$/ }, () => ({
        contents: `module.exports = () => { throw new Error('HTTP/2 is left out'); };`,
      }));
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
        return { path: join(directory, name), namespace: 'prebuilt' };
      });
      build.onLoad({ filter: /./, namespace: 'prebuilt' }, ({ path }) => ({
        contents: `module.exports = () => require(${JSON.stringify(path)});`,
        resolveDir: bindings,
      }));
    },
  };
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      out: { type: 'string', default: join(project, 'dist') },
      main: { type: 'string', default: join(project, 'src/main.ts') },
      arch: { type: 'string', default: process.arch },
      node: { type: 'string', default: process.execPath },
    },
  });
  await buildTree({ ...values, out: resolve(values.out), main: resolve(values.main) });
}
