import fs from 'node:fs';
import type { Stats } from 'node:fs';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { Script } from 'node:vm';
import { crc32 } from 'node:zlib';

/**
 * The first file of the built program. It loads the others with the code that V8 compiled while they ran before, which
 * takes 14 % from a start to READY, 15 % from `agent status` without a daemon and 5 MiB from a daemon at rest, compared
 * with Node's own cache (docs/performance.md). To remove it, let `systemd/make/bundle.ts` write `program.js` as `main.js`
 * again and export NODE_COMPILE_CACHE in `agent`.
 */

/** Differs with each build; the build sets it. */
declare const BUILD: string;

interface Module {
  exports: unknown;
}

/** V8 reads code in place if it is aligned. */
const HEADER_BYTES = 8;
/** By then a daemon has started, and most of its compiled code is still in memory. */
const SAVE_AFTER_MS = 20_000;
const PREFIX = 'code-';

const { CODE_CACHE: cache = '' } = process.env;
/** Commands and the daemon run different functions, and each reads only its own. */
const folder = join(cache, `${PREFIX}${BUILD}-${process.argv.includes('run') ? 'daemon' : 'command'}`);
const isOurs = cache !== '' && belongsToUs(attempt(() => fs.lstatSync(folder)));
const modules = new Map<string, Module>();
const compiled = new Map<string, Script>();
/** The code of a file had to be compiled in this run. */
let isNew = false;

load('program.js');
process.on('exit', save);
setTimeout(save, SAVE_AFTER_MS).unref();

function load(name: string): unknown {
  const known = modules.get(name);
  if (known !== undefined) return known.exports;
  const module: Module = { exports: {} };
  const filename = join(__dirname, name);
  const text = `(function(exports,require,module,__filename,__dirname){${fs.readFileSync(filename, 'utf8')}\n})`;
  const cachedData = isOurs ? attempt(() => read(join(folder, name))) : undefined;
  const script = new Script(text, { filename, ...(cachedData !== undefined && { cachedData }) });
  isNew ||= cachedData === undefined || script.cachedDataRejected === true;
  compiled.set(name, script);
  modules.set(name, module);
  const run: unknown = script.runInThisContext();
  if (typeof run !== 'function') throw new TypeError(`${filename} is not a module`);
  Reflect.apply(run, module.exports, [module.exports, requireFor, module, filename, __dirname]);
  return module.exports;
}

function requireFor(id: string): unknown {
  return id.startsWith('./') && id.endsWith('.js') ? load(id.slice(2)) : require(id);
}

/** Returns the compiled code of a file, or undefined if the file was changed. */
function read(path: string): Buffer | undefined {
  const file = fs.openSync(path, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW);
  try {
    const bytes = belongsToUs(fs.fstatSync(file)) ? fs.readFileSync(file) : Buffer.of();
    const data = bytes.subarray(HEADER_BYTES);
    return data.byteLength > 0 && crc32(data) === bytes.readUInt32LE() ? data : undefined;
  } finally {
    fs.closeSync(file);
  }
}

/** True if only this user can write there: what it holds is run. */
function belongsToUs(stats: Stats | undefined): boolean {
  return stats !== undefined && stats.uid === process.geteuid?.() && (stats.mode & 0o022) === 0;
}

/** Stores the code compiled since the start, unless all of it was read, and removes the code of other builds. */
function save(): void {
  const scripts = [...compiled];
  compiled.clear();
  if (!isNew || cache === '') return;
  isNew = false;
  attempt(() => {
    if (!belongsToUs(attempt(() => fs.lstatSync(folder)))) fs.rmSync(folder, { recursive: true, force: true });
    // not `recursive`, which never returns where a directory takes no entries, as in /proc
    for (const path of [dirname(cache), cache, folder]) attempt(() => fs.mkdirSync(path, { mode: 0o700 }));
    for (const [name, script] of scripts) write(join(folder, name), script.createCachedData());
    for (const other of fs.readdirSync(cache))
      if (other.startsWith(PREFIX) && !other.startsWith(`${PREFIX}${BUILD}`))
        fs.rmSync(join(cache, other), { recursive: true });
  });
}

/** As a whole, or not at all. */
function write(path: string, data: Buffer): void {
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeUInt32LE(crc32(data));
  const draft = `${path}.${process.pid}`;
  fs.writeFileSync(draft, Buffer.concat([header, data]), { mode: 0o600, flag: 'wx' });
  fs.renameSync(draft, path);
}

/** Returns undefined if the system refuses: without a cache, the program only starts later. */
function attempt<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (error instanceof Error && 'code' in error) return undefined;
    throw error;
  }
}
