import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';

import { stop } from '../machine/file-gateway.ts';
import { tool } from '../machine/tool.ts';

const FAR_ADDRESS = '10.9.0.2';
const names = `127.0.0.1 localhost
${FAR_ADDRESS} dual.test only4.test
fd00:dead::2 dual.test
`;

/**
 * Two network namespaces and a connection with a delay. At the near end, `dual.test` has an unreachable IPv6 address in
 * addition to the IPv4 address of the far end; `only4.test` has only the latter.
 */
export class SlowLink implements AsyncDisposable {
  readonly #near: string;
  readonly #far: string;
  readonly #directory: string;
  readonly #wire: ChildProcess;
  readonly #children: ChildProcess[] = [];

  private constructor(directory: string, [near, far]: readonly [string, string], wire: ChildProcess) {
    this.#directory = directory;
    this.#near = near;
    this.#far = far;
    this.#wire = wire;
  }

  static async open(roundTripMs: number): Promise<SlowLink> {
    const directory = await mkdtemp(join(tmpdir(), 'slow-link-'));
    const id = directory.slice(-6);
    const [near, far] = [`near-${id}`, `far-${id}`] as const;
    for (const name of [near, far]) await tool(['ip', 'netns', 'add', name]);
    await mkdir(`/etc/netns/${near}`, { recursive: true });
    await writeFile(`/etc/netns/${near}/hosts`, names);
    const wire = spawn('python3', [join(import.meta.dirname, 'slow-link.py'), near, far], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const link = new SlowLink(directory, [near, far], wire);
    await firstLine(wire.stdout, () => true);
    for (const [name, address] of [
      [near, '10.9.0.1'],
      [far, FAR_ADDRESS],
    ] as const) {
      for (const device of ['w0', 'lo']) await tool(['ip', '-n', name, 'link', 'set', device, 'up']);
      await tool(['ip', '-n', name, 'addr', 'add', `${address}/24`, 'dev', 'w0']);
    }
    link.setRoundTrip(roundTripMs);
    return link;
  }

  setRoundTrip(ms: number): void {
    (this.#wire.stdin as Writable).write(`${ms / 2}\n`);
  }

  /** Routes all IPv6 to the far end, where nothing responds. */
  async swallowIpv6(): Promise<void> {
    await tool(['ip', '-n', this.#near, 'addr', 'add', 'fd00:beef::1/64', 'dev', 'w0', 'nodad']);
    await tool(['ip', '-6', '-n', this.#near, 'route', 'add', 'fd00:dead::/64', 'dev', 'w0']);
  }

  /** A program that runs this one at the near end. */
  async nearProgram(program: string): Promise<string> {
    const path = join(this.#directory, 'near');
    await writeFile(path, `#!/bin/sh\nexec ip netns exec ${this.#near} '${program}' "$@"\n`);
    await chmod(path, 0o755);
    return path;
  }

  /** Runs a program at the far end until the link is closed. Resolves when it has printed a line that has this text. */
  async startFar(command: readonly string[], ready: string): Promise<void> {
    const child = spawn('ip', ['netns', 'exec', this.#far, ...command], { stdio: ['ignore', 'pipe', 'pipe'] });
    this.#children.push(child);
    const lines = [child.stdout, child.stderr].map(async (stream) => firstLine(stream, (line) => line.includes(ready)));
    await Promise.race(lines);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of [...this.#children, this.#wire]) await stop(child, 'SIGKILL');
    for (const name of [this.#near, this.#far]) await tool(['ip', 'netns', 'del', name]);
    await rm(`/etc/netns/${this.#near}`, { recursive: true, force: true });
    await rm(this.#directory, { recursive: true, force: true });
  }
}

async function firstLine(stream: Readable, isIt: (line: string) => boolean): Promise<void> {
  const lines = createInterface({ input: stream });
  const found = Promise.withResolvers<void>();
  lines.on('line', (line) => {
    if (isIt(line)) found.resolve();
  });
  lines.once('close', () => found.reject(new Error('a program at the link ended')));
  await found.promise;
}
