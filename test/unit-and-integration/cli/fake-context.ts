import { parseArguments } from '../../../src/cli/arguments/parse-arguments.ts';
import type { CliContext, Support, TextOutput } from '../../../src/cli/context.ts';
import { runCommand } from '../../../src/cli/run.ts';
import type { AgentOperations } from '../../../src/control/operations.ts';
import { errorCodes, explainCode } from '../../../src/error-catalogue.ts';
import type { Clock } from '../../../src/system/time/clock.ts';
import { fakeAgent, fakeFile } from './fake-operations.ts';

export const noon = Date.parse('2026-03-01T12:00:00.000Z');

/** Stands still; who sleeps sleeps until the signal is aborted. */
export const stoppedClock: Clock = {
  nowMs: () => noon,
  monotonicMs: () => 0,
  sleep: (_ms, signal) =>
    new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
};

/** Stores written text. */
export class FakeOutput implements TextOutput {
  readonly isTTY: boolean;
  readonly columns: number | undefined;
  rows: number | undefined;
  isOpen = true;
  text = '';
  pinned: (string | undefined)[] = [];

  constructor(columns?: number) {
    this.isTTY = columns !== undefined;
    this.columns = columns;
  }

  write(text: string): void {
    this.text += text;
  }

  pin(line: string | undefined): void {
    this.pinned.push(line);
  }

  get lines(): readonly string[] {
    return this.text.split('\n').slice(0, -1);
  }
}

export interface FakeContext extends CliContext {
  readonly out: FakeOutput;
  readonly err: FakeOutput;
}

export interface FakeWorld extends Partial<Omit<CliContext, 'out' | 'err'>> {
  readonly daemon?: AgentOperations | undefined;
  readonly alone?: AgentOperations | undefined;
  /** Width of the terminal. Absent without a terminal. */
  readonly columns?: number;
}

export function fakeContext({ daemon, alone, columns, ...wanted }: FakeWorld = {}): FakeContext {
  return {
    env: {},
    version: '0.1.0',
    directory: '/home/technician',
    clock: stoppedClock,
    localOffset: () => 60,
    signal: new AbortController().signal,
    guard: () => ({ [Symbol.dispose]: () => {} }),
    isInteractive: false,
    isConfigNamed: false,
    person: () => ({ ask: async () => undefined, [Symbol.dispose]: () => {} }),
    connect: async () => daemon,
    readOnly: async () => ({ ...(alone ?? fakeAgent()), [Symbol.asyncDispose]: async () => {} }),
    local: async () => ({ ...(alone ?? fakeAgent()), [Symbol.asyncDispose]: async () => {} }),
    openFile: async () => fakeFile(),
    inspect: async ({ path }) => ({ file: path, kind: 'image', signature: 'none', payloads: [], obstacles: [] }),
    runDaemon: async () => 0,
    explain: async (code) => explainCode(code),
    errorCodes: async () => errorCodes(),
    writeDelta: async ({ output: path }) => {
      const image = { sizeBytes: 1_000_000, digest: `sha256:${'a'.repeat(64)}` };
      return { path, deltaBytes: 70_000, base: image, result: image };
    },
    writeTrustList: async (_path, { number = 1 }) => ({ number, keys: [], revoked: { keys: [], releases: [] } }),
    setup: async () => {
      throw new Error('no setup here');
    },
    scan: async () => ({ found: [], isCut: false }),
    support: async () => fakeSupport,
    config: {
      check: async () => ({ path: '/etc/thing-agent/config.toml', warnings: [] }),
      show: async () => ({ text: '[service]\nurl = "https://things.example.com"\n', value: { service: {} } }),
      schema: async () => ({ type: 'object' }),
    },
    ...wanted,
    out: new FakeOutput(columns),
    err: new FakeOutput(columns),
  };
}

/** For a gateway without a configuration. */
export const fakeSupport: Support = {
  stateDirectory: '/nonexistent',
  secrets: [],
  kernelNames: async () => [],
  configuration: async () => '[service]\nurl = "https://things.example.com"\n',
  bootEnvironment: async () => ({ booted: 'A' }),
  slotUnder: async () => undefined,
};

/** Types a command line and waits for its end. */
export async function type(args: readonly string[], world: FakeWorld = {}) {
  const context = fakeContext(world);
  const exitCode = await runCommand(parseArguments(args), context);
  return { exitCode, out: context.out.text, err: context.err.text, context };
}
