import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

import { expect, test } from 'vitest';

const run = promisify(execFile);

/** The packages and heavy built-in modules that a command line loads before and while it is answered. */
async function loadedFor(...args: readonly string[]): Promise<readonly string[]> {
  const from = (path: string): string => JSON.stringify(new URL(path, import.meta.url).href);
  const script = `
    import { registerHooks } from 'node:module';
    const loaded = [];
    registerHooks({ load: (url, context, next) => (loaded.push(url), next(url, context)) });
    const { parseArguments } = await import(${from('../../../src/cli/arguments/parse-arguments.ts')});
    const { runCommand } = await import(${from('../../../src/cli/run.ts')});
    const output = { isTTY: false, columns: undefined, write: () => {}, pin: () => {} };
    const context = {
      out: output, err: output, env: {}, version: '0.1.0', clock: { nowMs: () => 0 }, localOffset: () => 0,
      signal: new AbortController().signal, connect: async () => undefined,
      local: async () => ({ status: () => Promise.reject(new Error('no')), [Symbol.asyncDispose]: async () => {} }),
    };
    await runCommand(parseArguments(${JSON.stringify(args)}), context);
    console.log(JSON.stringify(loaded));`;
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script]);
  const urls = JSON.parse(stdout) as readonly string[];
  return urls.filter((url) => url.includes('/node_modules/') || /^node:(http|net|tls|sqlite|worker)/.test(url));
}

test.each([[['--version']], [['--help']], [['status', '--help']], [['stauts']], [['status']]])(
  'agent %j loads no package before it is needed',
  async (args) => {
    expect(await loadedFor(...args)).toEqual([]);
  },
);
