import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { vi } from 'vitest';

import { execSource, execStreamSource } from '../../../../../src/telemetry/sources/exec.ts';
import { gpioSource } from '../../../../../src/telemetry/sources/gpio.ts';
import type { Source } from '../../../../../src/telemetry/sources/source.ts';
import { sourceContract, timeoutMs } from './source-contract.ts';
import type { Conduct, SourceRig } from './source-contract.ts';

/** The lines of a shell script. */
type Script = Readonly<Record<Conduct, string>>;

const once: Script = {
  works: 'echo 7',
  silent: 'exec sleep 1000',
  garbage: 'head -c 3000 /dev/urandom',
  overflow: 'exec yes 0123456789',
  gone: 'exit 3',
};
const forever: Script = {
  ...once,
  works: 'while echo 7; do sleep 0.05; done',
  garbage: 'head -c 3000 /dev/urandom; echo; exec sleep 1000',
  overflow: 'yes 0123456789 | tr -d "\\n"',
};

/** A program whose behavior changes with its file. */
function rigOf(stack: AsyncDisposableStack, name: string, script: Script, make: (path: string) => Source): SourceRig {
  const folder = mkdtempSync(join(tmpdir(), 'program-'));
  stack.defer(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, name);
  const conduct = (conduct: Conduct): void => writeFileSync(path, `#!/bin/sh\n${script[conduct]}\n`, { mode: 0o755 });
  conduct('works');
  return { source: make(path), conduct };
}

sourceContract('exec', async (stack) =>
  rigOf(stack, 'program', once, (path) => execSource({ command: ['/bin/sh', path] }, timeoutMs)),
);

sourceContract('exec, with stream', async (stack) =>
  rigOf(stack, 'program', forever, (path) => execStreamSource({ command: ['/bin/sh', path] })),
);

sourceContract('gpio', async (stack) =>
  rigOf(stack, 'gpioget', once, (path) => {
    vi.stubEnv('PATH', `${join(path, '..')}:${process.env['PATH']}`);
    stack.defer(() => void vi.unstubAllEnvs());
    return gpioSource('gpiochip0', 2, 1, timeoutMs);
  }),
);
