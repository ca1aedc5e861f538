import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import process from 'node:process';
import { promisify } from 'node:util';

import { describe, expect, test } from 'vitest';

import { socketNames } from '../../../src/control/access.ts';
import { ControlError } from '../../../src/control/control-errors.ts';
import type { AgentOperations } from '../../../src/control/operations.ts';
import type { FileContent } from '../../../src/system/files/opened-file.ts';
import { SystemError } from '../../../src/system/system-errors.ts';
import { ConductedOperation, fakeAgent } from '../cli/fake-operations.ts';
import { controlRig, forever, rawConnection } from './control-rig.ts';
import type { ControlRig, RawConnection } from './control-rig.ts';

const asUsual = { reboot: true, force: false };
const installed = { kind: 'installed', version: 'v1' } as const;

async function expectAlive(rig: ControlRig): Promise<void> {
  expect((await rig.client.status({}, forever)).serialNumber).toBe('GW-0001');
}

const run = promisify(execFile);

/** Sends large files, and prints the codes of the errors that it got. */
function refusedClient(socket: string): string {
  const module = new URL('../../../src/control/client/control-client.ts', import.meta.url).href;
  return `
    const { controlClient } = await import(${JSON.stringify(module)});
    const client = controlClient(${JSON.stringify(socket)});
    const piece = Buffer.alloc(65_536);
    const file = { sizeBytes: 1_000 * 65_536, read: async function* () { for (let n = 0; n < 1_000; n += 1) yield piece; } };
    const { signal } = new AbortController();
    const codes = {};
    for (let round = 0; round < 75; round += 1) {
      const input = { path: '/a', file };
      for (const send of [() => client.inspect(input, signal), () => client.install({ ...input, reboot: true, force: false }, () => {}, signal)]) {
        const code = await send().then(() => 'none', (error) => error.code);
        codes[code] = (codes[code] ?? 0) + 1;
      }
    }
    console.log(JSON.stringify(codes));
  `;
}

describe('a file that is sent', () => {
  const megabyte = Buffer.alloc(1024 * 1024, 'a');

  /** A file of this many megabytes, with a count of the requested ones. */
  function large(megabytes: number): FileContent & { sent: number } {
    const file = {
      sent: 0,
      sizeBytes: megabytes * megabyte.byteLength,
      read: async function* (): AsyncGenerator<Uint8Array> {
        for (; file.sent < megabytes; file.sent += 1) yield megabyte;
      },
    };
    return file;
  }

  /** An agent whose installation is this, with the file that it gets. */
  function installing(work: (file: FileContent, signal: AbortSignal) => Promise<void>) {
    const install: AgentOperations['install'] = async ({ file }, _onEvent, signal) => {
      await work(file, signal);
      return installed;
    };
    return fakeAgent({ install });
  }

  const send = async (rig: ControlRig, file: FileContent, signal = forever) =>
    rig.client.install({ path: '/release.mender', file, ...asUsual }, () => {}, signal);

  test('comes no faster than it is read, and is not kept', async () => {
    const file = large(64);
    let most = 0;
    let got = 0;
    await using rig = await controlRig(
      installing(async (sent, signal) => {
        for await (const chunk of sent.read(signal)) {
          got += chunk.byteLength;
          most = Math.max(most, file.sent * megabyte.byteLength - got);
        }
        await expect(sent.read(signal)[Symbol.asyncIterator]().next()).rejects.toMatchObject({ code: 'file-not-sent' });
      }),
    );
    expect(await send(rig, file)).toEqual(installed);
    expect(got).toBe(file.sizeBytes);
    expect(most).toBeLessThan(4 * megabyte.byteLength);
  });

  test('is not read if it is refused, and the client gets the answer', async () => {
    const operation = new ConductedOperation();
    await using rig = await controlRig(
      fakeAgent({
        update: (_options, onEvent, signal) => operation.run(onEvent, signal),
        inspect: async () => Promise.reject(new ControlError('preempted', 'x')),
      }),
    );
    const updating = rig.client.update(asUsual, () => {}, forever);
    await operation.begun;
    for (let round = 0; round < 20; round += 1) {
      const file = large(64);
      await expect(send(rig, file)).rejects.toMatchObject({ code: 'agent-busy' });
      const inspecting = rig.client.inspect({ path: '/a', file: large(64) }, forever);
      await expect(inspecting).rejects.toMatchObject({ code: 'preempted' });
    }
    await expectAlive(rig);
    operation.end(installed);
    expect(await updating).toEqual(installed);
  });

  // Regression: 23 of 600 clients lost the reply, since their write failed before they had read it.
  test('is refused in the middle, and a client in another process gets the answer', async () => {
    const refuse = async (file: FileContent, signal: AbortSignal): Promise<void> => {
      let got = 0;
      for await (const chunk of file.read(signal)) {
        got += chunk.byteLength;
        if (got > 3 * megabyte.byteLength) throw new ControlError('preempted', 'enough');
      }
    };
    await using rig = await controlRig({
      ...installing(refuse),
      inspect: async ({ file, path }, signal) =>
        refuse(file, signal).then(() => ({ file: path, payloads: [], obstacles: [] })),
    });
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', refusedClient(rig.socket)]);
    expect(JSON.parse(stdout)).toEqual({ preempted: 150 });
  });

  test('ends the work that reads it if its client goes away', async () => {
    const gone = new AbortController();
    const ended = Promise.withResolvers<unknown>();
    await using rig = await controlRig(
      installing(async (file, signal) => {
        try {
          for await (const _ of file.read(signal)) gone.abort(new Error('Ctrl-C'));
        } catch (error) {
          ended.resolve(error);
          throw error;
        }
      }),
    );
    await expect(send(rig, large(64), gone.signal)).rejects.toThrow('Ctrl-C');
    expect(await ended.promise).toMatchObject({ code: 'file-not-sent', remedy: 'retry' });
    await expectAlive(rig);
  });

  test('ends the work that reads it if its client falls silent', async () => {
    await using rig = await controlRig(
      installing(async (file, signal) => {
        for await (const _ of file.read(signal));
      }),
      { stalledMs: 50 },
    );
    const head = 'POST /v1/install?path=/a HTTP/1.1\r\nhost: a\r\ncontent-length: 1000\r\n\r\nbegin';
    expect(await rawConnection(rig.socket, head).ended).toContain('file-not-sent');
    await expectAlive(rig);
  });

  // Regression: with a byte every 20 s an operator blocked every update, and every trust list, for days.
  test('ends the work that reads it if it drips', async () => {
    await using rig = await controlRig(
      installing(async (file, signal) => {
        for await (const _ of file.read(signal));
      }),
      { slowFileMs: 100 },
    );
    const head = 'POST /v1/install?path=/a HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\n';
    const { socket, ended } = rawConnection(rig.socket, head);
    const dripping = setInterval(() => socket.write('x'), 10);
    const reply = await ended;
    clearInterval(dripping);
    expect(reply).toContain('file-not-sent');
    expect(await send(rig, large(64))).toEqual(installed);
  });

  const refusals = [
    ['members', 'install?path=/a', '403'],
    ['members', 'inspect?path=/a', '403'],
    ['members', 'boards/m/plan?path=/a', '403'],
    ['members', 'flash?path=/a&board=m', '403'],
    ['operators', 'install?path=/a&x=1', '400'],
    ['operators', 'install?path=/a', '503'],
  ] as const;
  const endless = (request: string): string =>
    `POST /v1/${request} HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000000\r\n\r\nx`;

  // Regression: 14,000 of them stayed open for 30 s each, until the daemon ran out of memory.
  test.each(refusals)('of %s keeps few connections open if it is refused: %s', async (caller, request, status) => {
    await using rig = await controlRig(fakeAgent(), { maxAtOnce: 0, maxWaiting: 4, requestMs: 3_600_000 });
    const path = join(rig.runDirectory, socketNames[caller]);
    const held: RawConnection[] = [];
    for (let count = 0; count < 12; count += 1) {
      const one = rawConnection(path, endless(request));
      await once(one.socket, 'data');
      held.push(one);
    }
    const ended = await Promise.all(held.slice(0, 8).map(async (one) => one.ended));
    for (const reply of ended) expect(reply).toContain(`HTTP/1.1 ${status} `);
    for (const { socket } of held) socket.destroy();
  });

  test.each(refusals)('of %s is closed soon after it was refused: %s', async (caller, request, status) => {
    await using rig = await controlRig(fakeAgent(), { maxAtOnce: 0, requestMs: 50, stalledMs: 3_600_000 });
    const { ended } = rawConnection(join(rig.runDirectory, socketNames[caller]), endless(request));
    expect((await ended).match(/HTTP\/1.1 \d+/g)).toEqual([`HTTP/1.1 ${status}`]);
  });

  test('fails with the error of its reader at the client', async () => {
    const changed = new SystemError('file-changed', 'it is being written to');
    const file: FileContent = {
      sizeBytes: 2 * megabyte.byteLength,
      read: async function* () {
        yield megabyte;
        throw changed;
      },
    };
    await using rig = await controlRig(
      installing(async (sent, signal) => {
        for await (const _ of sent.read(signal));
      }),
    );
    await expect(send(rig, file)).rejects.toBe(changed);
    await expectAlive(rig);
  });

  // Regression: an operator got the digest and the size of any file that root can read, and guessed a password offline.
  test.each(['install?path=/etc/passwd&reboot=false', 'inspect?path=/etc/passwd'])(
    'comes from the body, whatever path the client names: %s',
    async (request) => {
      let got = '';
      const read = async (file: FileContent, signal: AbortSignal): Promise<void> => {
        for await (const chunk of file.read(signal)) got += String(chunk);
      };
      const inspect: AgentOperations['inspect'] = async ({ path, file }, signal) => {
        await read(file, signal);
        return { file: path, kind: 'image', signature: 'none', payloads: [], obstacles: [] };
      };
      await using rig = await controlRig({ ...installing(read), inspect });
      const text = `POST /v1/${request} HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi`;
      expect(await rawConnection(rig.socket, text).ended).toMatch(/"installed"|"image"/);
      expect(got).toBe('hi');
    },
  );
});
