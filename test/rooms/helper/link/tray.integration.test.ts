import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, mkdtemp, open, rm, stat, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { PortServer } from '../../../../src/helper/agent/port-server.ts';
import type { AgentPorts } from '../../../../src/helper/agent/port-server.ts';
import { requireForm } from '../../../../src/helper/link/message.ts';
import { OpenTray, PLACE_BYTES, Tray, trayBeside, TrayReader } from '../../../../src/helper/link/tray.ts';
import { remoteFirmware } from '../../../../src/helper/root/agent-ports.ts';
import type { AskAgent } from '../../../../src/helper/root/ask-agent.ts';
import { agentVerbs } from '../../../../src/helper/verbs.ts';
import type { FirmwareTransfer } from '../../../../src/update/ports.ts';

const signal = new AbortController().signal;
/** Several places, and a rest. */
const SIZE_BYTES = 3 * PLACE_BYTES + 12_345;

let folder: string;
let path: string;
let server: PortServer;
/** How many answers brought a firmware in the message. */
let messages: number;

beforeEach(async () => {
  folder = await mkdtemp('/dev/shm/tray-');
  path = trayBeside(join(folder, 'helper.sock'));
  await writeFile(path, '');
  server = serverWith(new Tray(path));
  messages = 0;
});
afterEach(async () => {
  await server[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

/** An agent whose service has a firmware for each text, in chunks of one buffer. */
function serverWith(tray: Pick<Tray, 'open'>): PortServer {
  async function* chunks(text: string): AsyncGenerator<Uint8Array> {
    const whole = contentOf(text);
    const chunk = Buffer.alloc(100_000);
    for (let at = 0; at < whole.byteLength; at += chunk.byteLength) yield chunk.subarray(0, whole.copy(chunk, 0, at));
  }
  const firmware = (text: string) => ({
    form: 'json-string',
    open: async () => ({ startOffset: 0, chunks: chunks(text), [Symbol.asyncDispose]: async () => {} }),
  });
  return new PortServer({ service: { firmware } } as unknown as AgentPorts, tray as Tray);
}

function contentOf(text: string): Buffer {
  return Buffer.alloc(SIZE_BYTES, text);
}

/** The helper's side, with nothing between it and the agent's. */
function helper(onAnswer: (output: object, verb: string) => object | Promise<object> = (output) => output): AskAgent {
  const answerWithBytes: AskAgent['answerWithBytes'] = async (verb, input) => {
    const { output, body, onSent } = await server.serve({
      id: 1,
      within: 1,
      verb: verb.name,
      input,
      body: undefined,
      signal,
    });
    const copy = body && Buffer.from(body);
    onSent?.();
    const isBytes = copy !== undefined && copy.byteLength > 0;
    messages += isBytes ? 1 : 0;
    const answer = await onAnswer(output as object, verb.name);
    return { output: requireForm('an answer', verb.output, answer), body: isBytes ? copy : undefined };
  };
  return {
    tray: new TrayReader(path),
    answerWithBytes,
    answer: async (verb, input, options) => (await answerWithBytes(verb, input, options, signal)).output,
    forgetfully: async (verb, input) => void (await answerWithBytes(verb, input, {}, signal)),
  } satisfies Partial<AskAgent> as unknown as AskAgent;
}

async function opened(ask: AskAgent, text = 'firmware'): Promise<FirmwareTransfer> {
  return remoteFirmware(ask, 'json-string', text).open(undefined, signal);
}

async function readAll({ chunks }: FirmwareTransfer): Promise<Buffer> {
  const read: Buffer[] = [];
  for await (const chunk of chunks) read.push(Buffer.from(chunk));
  return Buffer.concat(read);
}

async function nextOf({ chunks }: FirmwareTransfer): Promise<Buffer> {
  const { value } = (await chunks[Symbol.asyncIterator]().next()) as IteratorResult<Uint8Array, undefined>;
  return Buffer.from(value ?? []);
}

async function expectWhole(ask: AskAgent): Promise<void> {
  await using transfer = await opened(ask);
  expect((await readAll(transfer)).equals(contentOf('firmware'))).toBe(true);
}

describe('a firmware on its way through the tray', () => {
  test('arrives whole, with no bytes in messages, and leaves no memory behind', async () => {
    const ask = helper();
    for (let time = 0; time < 2; time += 1) {
      await expectWhole(ask);
      expect(await stat(path)).toMatchObject({ size: 0, blocks: 0 });
    }
    expect(messages).toBe(0);
  });

  test('is not mixed with another one that is open meanwhile, which the end of the first leaves alone', async () => {
    const ask = helper();
    await using first = await opened(ask, 'first');
    await using second = await opened(ask, 'second');
    const begun = [await nextOf(first), await nextOf(second)] as const;
    expect(Buffer.concat([begun[0], await readAll(first)]).equals(contentOf('first'))).toBe(true);
    await first[Symbol.asyncDispose]();
    expect(Buffer.concat([begun[1], await readAll(second)]).equals(contentOf('second'))).toBe(true);
  });

  test('is laid nowhere any more once its transfer is closed', async () => {
    const ask = helper();
    const transfer = await opened(ask);
    await nextOf(transfer);
    await transfer[Symbol.asyncDispose]();
    expect(await stat(path)).toMatchObject({ size: 0 });
    const late = ask.answerWithBytes(agentVerbs.readFirmware, { transfer: 1 }, {}, signal);
    await expect(late).rejects.toMatchObject({ code: 'link-malformed' });
  });
});

describe('a firmware goes in messages', () => {
  test('where there is no tray', async () => {
    await rm(path);
    await expectWhole(helper());
    expect(messages).toBeGreaterThan(2);
  });

  test('where the tray would be on a disk', async () => {
    const onDisk = await mkdtemp(join(tmpdir(), 'tray-'));
    const disk = await promisify(execFile)('stat', ['--file-system', '--format=%T', onDisk]);
    await rm(path);
    path = disk.stdout.startsWith('tmpfs') ? '/proc/version' : join(onDisk, 'tray');
    if (!existsSync(path)) await writeFile(path, '');
    server = serverWith(new Tray(path));
    await expectWhole(helper());
    await rm(onDisk, { recursive: true });
    expect(messages).toBeGreaterThan(2);
  });

  test('where there is no memory for a place', async () => {
    await using full = await open(path, 'r'); // nothing can be written
    server = serverWith({ open: async () => new OpenTray(full, () => {}) });
    await expectWhole(helper());
    expect(messages).toBeGreaterThan(2);
  });

  test.each(['link', 'pipe', 'folder'])('where a %s lies in the place of the tray', async (kind) => {
    await rm(path);
    await writeFile(join(folder, 'other'), '');
    if (kind === 'link') await symlink(join(folder, 'other'), path);
    else await promisify(execFile)(kind === 'pipe' ? 'mkfifo' : 'mkdir', [path]);
    await expectWhole(helper());
    expect(messages).toBeGreaterThan(2);
    expect(await stat(join(folder, 'other'))).toMatchObject({ size: 0 });
  });

  test('where the helper names no place, as one of an older version', async () => {
    await chmod(path, 0o600);
    const ask = helper();
    await expectWhole(Object.assign(ask, { tray: { open: async () => undefined } }));
    expect(messages).toBeGreaterThan(2);
  });
});

describe('an agent that was broken into', () => {
  test.each([
    [
      'takes away what it has laid',
      async (output: object) => {
        await truncate(path);
        return output;
      },
    ],
    ['says that it has laid more than there is room for', () => ({ laidBytes: PLACE_BYTES + 1 })],
    ['says that it has laid less than nothing', () => ({ laidBytes: -1 })],
  ])('%s, and is found out', async (_what, lie) => {
    const ask = helper((output) => ('laidBytes' in output ? lie(output) : output));
    await using transfer = await opened(ask);
    await expect(readAll(transfer)).rejects.toMatchObject({ code: 'link-malformed' });
  });

  test('says that it has laid what the helper has no tray for, and is found out', async () => {
    const ask = helper((output, verb) => (verb === 'readFirmware' ? { laidBytes: 1 } : output));
    await using transfer = await opened(Object.assign(ask, { tray: { open: async () => undefined } }));
    await expect(readAll(transfer)).rejects.toMatchObject({ code: 'link-malformed' });
  });
});
