import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import type { Activation } from '../../../../src/service/contract.ts';
import { operations } from '../../../../src/service/operations.ts';
import { asThing } from '../../../fakes/service/as-thing.ts';
import type { FaultInput } from '../../../fakes/service/faults.ts';
import { randomContent } from '../../../fakes/service/firmware-content.ts';
import { FirmwareText } from '../../../fakes/service/firmware-text.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';
import type { StandIn } from '../../../fakes/service/stand-in.ts';
import { readAll, restRig } from './rest-rig.ts';
import type { RestRig } from './rest-rig.ts';

const { signal } = new AbortController();
/** For unresponsive peers; everything else has the default timeouts. */
const impatient = { connectMs: 10_000, firstByteMs: 1_000, idleMs: 1_000, totalMs: 20_000, transferMs: 60_000 };
const firmware = randomContent(5_000_000);
const expected = Buffer.concat([...new FirmwareText(firmware).read()]);

let service: StandIn;
let rig: RestRig;
let hasty: RestRig;
let thing: Activation;

beforeEach(async () => {
  service = await startStandIn({ versions: [{ id: '1', firmware }] });
  rig = restRig(service.url);
  hasty = restRig(service.url, { deadlines: impatient });
  thing = await rig.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal);
});

afterEach(async () => {
  await rig[Symbol.asyncDispose]();
  await hasty[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
});

async function download(fault?: FaultInput): Promise<Buffer> {
  const { transport } = fault !== undefined && fallsSilent.has(fault.kind) ? hasty : rig;
  await using text = await transport.firmware('1', asThing(thing), undefined, signal);
  return await readAll(text.chunks);
}

/** Sends the text in chunks and closes the connection after each reply; of the first one only a share is sent. */
async function chunkedService(share: number): Promise<{ readonly url: string } & AsyncDisposable> {
  const chunks: Buffer[] = [];
  for (let at = 0; at < expected.byteLength; at += 100_000) {
    const chunk = expected.subarray(at, at + 100_000);
    chunks.push(Buffer.from(`${chunk.byteLength.toString(16)}\r\n`), chunk, Buffer.from('\r\n'));
  }
  const body = Buffer.concat([...chunks, Buffer.from('0\r\n\r\n')]);
  let end = Math.floor(body.byteLength * share);
  const server = createServer((socket) => {
    socket.on('error', () => {}); // the peer may have disconnected
    socket.once('data', () => {
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n');
      socket.end(body.subarray(0, end));
      end = body.byteLength;
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: async () => new Promise<void>((resolve) => server.close(() => resolve())),
  };
}

const fallsSilent: ReadonlySet<FaultInput['kind']> = new Set(['silence', 'wrong-length']);

const cuts: readonly [FaultInput][] = [
  [{ kind: 'truncate', afterBytes: 0 }],
  [{ kind: 'truncate', afterBytes: 1 }],
  [{ kind: 'truncate', afterBytes: 1_048_576 }],
  [{ kind: 'truncate', afterBytes: 3_333_333 }],
  [{ kind: 'truncate', afterBytes: expected.byteLength - 1 }],
  [{ kind: 'reset', afterBytes: 2_000_000 }],
  [{ kind: 'silence', afterBytes: 2_000_000 }],
];

describe('firmware', () => {
  test('comes as the service wrote it, and its length and validator with it', async () => {
    await using text = await rig.transport.firmware('1', asThing(thing), undefined, signal);
    expect(text).toMatchObject({ startOffset: 0, totalBytes: expected.byteLength, validator: '"1-1"' });
    expect((await readAll(text.chunks)).equals(expected)).toBe(true);
    expect(service.callsOf('firmware')).toHaveLength(1);
  });

  test.each(cuts)('resumes with a range after %j', async (fault) => {
    service.fail({ operation: 'firmware', fault });
    expect((await download(fault)).equals(expected)).toBe(true);
    const [, second] = service.callsOf('firmware');
    expect(second).toMatchObject({ status: 206, headers: { 'if-range': '"1-1"' } });
  });

  test.each(cuts)('that meets %j is read again and compared where there are no ranges', async (fault) => {
    service.behave({ ranges: false });
    service.fail({ operation: 'firmware', fault });
    expect((await download(fault)).equals(expected)).toBe(true);
    expect(service.callsOf('firmware').map(({ status }) => status)).toEqual([200, 200]);
  });

  test.each(cuts)('is read again after %j if its length is unknown', async (fault) => {
    service.behave({ contentLength: false, etag: 'weak' });
    service.fail({ operation: 'firmware', fault });
    expect((await download(fault)).equals(expected)).toBe(true);
  });

  test.each<[FaultInput]>([
    [{ kind: 'wrong-range', firstBy: 1 }],
    [{ kind: 'wrong-range', totalBy: 1 }],
    [{ kind: 'wrong-range', text: 'nonsense' }],
    [{ kind: 'ignore-range' }],
    [{ kind: 'status', status: 416 }],
    [{ kind: 'status', status: 503, retryAfter: 0 }],
    [{ kind: 'status', status: 500 }],
    [{ kind: 'reset' }],
    [{ kind: 'silence' }],
  ])('whose continuation meets %j comes all the same', async (fault) => {
    service.fail({ operation: 'firmware', fault: { kind: 'truncate', afterBytes: 2_000_000 } });
    service.fail({ operation: 'firmware', fault });
    expect((await download(fault)).equals(expected)).toBe(true);
  });

  test.each([0.3, 0.999_999])(
    'in chunks, of which %d arrives before the connection is closed as announced, is read again',
    async (share) => {
      await using raw = await chunkedService(share);
      await using cutRig = restRig(raw.url);
      await using text = await cutRig.transport.firmware('1', asThing(thing), undefined, signal);
      expect((await readAll(text.chunks)).equals(expected)).toBe(true);
    },
  );

  test('that announces more than it sends is taken for another one', async () => {
    const fault = { kind: 'wrong-length', by: 1_000 } as const;
    service.fail({ operation: 'firmware', fault });
    await expect(download(fault)).rejects.toMatchObject({ code: 'firmware-changed', remedy: 'retry' });
  });

  test('that announces less than it has ends there, for its reader to see', async () => {
    const fault = { kind: 'wrong-length', by: -1_000 } as const;
    service.fail({ operation: 'firmware', fault });
    expect((await download(fault)).equals(expected.subarray(0, -1_000))).toBe(true);
  });

  test('survives cuts for as long as each attempt brings something', async () => {
    service.fail({ operation: 'firmware', fault: { kind: 'truncate', afterBytes: 500_000 }, times: 13 });
    expect((await download()).equals(expected)).toBe(true);
    expect(service.callsOf('firmware')).toHaveLength(14);
  });

  test('fails when attempts make no progress, with the offset and the reason', async () => {
    service.fail({ operation: 'firmware', fault: { kind: 'truncate', afterBytes: 500_000 } });
    service.fail({ operation: 'firmware', fault: { kind: 'reset' }, times: 'always' });
    const reading = download();
    await expect(reading).rejects.toMatchObject({ code: 'connection-reset', remedy: 'retry' });
    await expect(reading).rejects.toThrow('firmware of version 1, byte 500000: ');
    expect(service.callsOf('firmware')).toHaveLength(3);
  });

  test.each<[string, FaultInput]>([
    ['a new ETag', { kind: 'change-firmware', at: 4_000_000 }],
    ['the old ETag and other bytes, without ranges', { kind: 'change-firmware', at: 1_000_000, keepEtag: true }],
  ])('that changed under %s is not mixed', async (_, fault) => {
    service.fail({ operation: 'firmware', fault: { kind: 'truncate', afterBytes: 2_000_000 } });
    service.fail({ operation: 'firmware', fault });
    if ('keepEtag' in fault) service.behave({ ranges: false });
    await expect(download()).rejects.toMatchObject({ code: 'firmware-changed', remedy: 'retry' });
  });

  test.each<[FaultInput, string]>([
    [{ kind: 'status', status: 404 }, 'service-not-found'],
    [{ kind: 'status', status: 401 }, 'key-rejected'],
    [{ kind: 'status', status: 206 }, 'reply-malformed'],
    [{ kind: 'redirect', location: 'https://cdn.example/firmware' }, 'service-redirected'],
    [{ kind: 'body', text: 'x', headers: { 'content-encoding': 'gzip' } }, 'reply-malformed'],
  ])('that meets %j at the very beginning fails as %s', async (fault, code) => {
    service.fail({ operation: 'firmware', fault });
    await expect(download()).rejects.toMatchObject({ code });
  });

  test('has a deadline as a whole', async () => {
    await using hastier = restRig(service.url, { deadlines: { ...impatient, transferMs: 2_000 } });
    service.fail({ operation: 'firmware', fault: { kind: 'drip', bytes: 10, everyMs: 100 } });
    await using text = await hastier.transport.firmware('1', asThing(thing), undefined, signal);
    await expect(readAll(text.chunks)).rejects.toMatchObject({ code: 'total-timeout' });
  });

  test('does not pile up in front of a reader that takes its time', async () => {
    let furthest = 0;
    const huge = randomContent(2 ** 33);
    const watched = {
      sizeBytes: huge.sizeBytes,
      read: (offset: number, length: number) => {
        furthest = Math.max(furthest, offset);
        return huge.read(offset, length);
      },
    };
    service.world.addVersion({ id: 'huge', firmware: watched });
    await using text = await rig.transport.firmware('huge', asThing(thing), undefined, signal);
    const chunks = text.chunks[Symbol.asyncIterator]();
    await chunks.next();
    furthest = 0;
    for (let calls = 0; calls < 200; calls += 1) await rig.transport.call(operations.targetVersion, thing, signal);
    expect(furthest).toBeLessThan(32 * 2 ** 20);
    await chunks.return?.();
  });

  test('of which only a part is wanted leaves no connection behind that others would wait for', async () => {
    for (let times = 0; times < 10; times += 1) {
      await using text = await rig.transport.firmware('1', asThing(thing), undefined, signal);
      for await (const chunk of text.chunks) if (chunk.byteLength > 0) break;
    }
    expect(await rig.transport.call(operations.targetVersion, thing, signal)).toMatchObject({ id: '1' });
  });

  test('that is aborted ends with the reason', async () => {
    const controller = new AbortController();
    await using text = await rig.transport.firmware('1', asThing(thing), undefined, controller.signal);
    const reason = new Error('stop');
    const reading = (async () => {
      for await (const chunk of text.chunks) if (chunk.byteLength > 0) controller.abort(reason);
    })();
    await expect(reading).rejects.toBe(reason);
  });
});
