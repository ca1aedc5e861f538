import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { ServiceError } from '../../../../src/service/errors.ts';
import { FirmwareDownload } from '../../../../src/service/rest/firmware-download.ts';
import type { DownloadDeps } from '../../../../src/service/rest/firmware-download.ts';
import { Throttle } from '../../../../src/service/throttle.ts';
import { systemClock } from '../../../../src/system/time/clock.ts';
import type { WirePosition } from '../../../../src/update/ports.ts';
import { ManualClock } from '../../../fakes/clock.ts';
import { randomContent } from '../../../fakes/service/firmware-content.ts';
import { RecordingLog } from '../recording-log.ts';
import { readAll } from './rest-rig.ts';
import { TextServer } from './text-server.ts';
import type { Turn } from './text-server.ts';

const { signal } = new AbortController();
const text = randomContent(3_000_000).read(0, 3_000_000);
const other = randomContent(3_000_000, 1).read(0, 3_000_000);
const plain: Turn = {
  text,
  etag: '"1"',
  sendsLength: true,
  ranges: 'right',
  cutAfter: undefined,
  chunkBytes: 65_536,
};

function context(server: TextServer, others: Partial<DownloadDeps> = {}): DownloadDeps {
  return {
    operation: 'firmware of version 1',
    request: server.request,
    resume: { attempts: 3, firstDelayMs: 100, maxDelayMs: 1_000, maxRetryAfterMs: 5_000 },
    deadlineMs: 60_000,
    clock: new ManualClock(),
    random: () => 0.5,
    log: new RecordingLog(),
    ...others,
  };
}

async function download(server: TextServer, from?: WirePosition, others?: Partial<DownloadDeps>) {
  await using transfer = await FirmwareDownload.open(context(server, others), from, signal);
  return { transfer, bytes: await readAll(transfer.chunks) };
}

describe('a bound on downloads', () => {
  const bytesPerSecond = 100_000;

  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  test('limits data that is read again, too, and does not count toward the transfer’s timeout', async () => {
    const server = new TextServer([
      { ...plain, ranges: 'ignored', cutAfter: 1_000_000 },
      { ...plain, ranges: 'ignored' },
    ]);
    const throttle = new Throttle([{ window: undefined, bytesPerSecond }], systemClock);
    const reading = download(server, undefined, { throttle, deadlineMs: 1_500, clock: systemClock });
    const startMs = performance.now();
    const read = Promise.withResolvers<Buffer>();
    void reading.then(({ bytes }) => read.resolve(bytes), read.reject);
    let endMs = Number.NaN;
    void read.promise.then(
      () => (endMs = performance.now()),
      () => {},
    );
    await vi.advanceTimersByTimeAsync(45_000);
    expect((await read.promise).equals(text)).toBe(true);
    expect(endMs - startMs).toBeGreaterThanOrEqual((4_000_000 / bytesPerSecond - 1) * 1_000);
  });
});

describe('encoded firmware', () => {
  test('comes whole, with its length and its validator', async () => {
    const server = new TextServer([plain]);
    const { transfer, bytes } = await download(server);
    expect(bytes.equals(text)).toBe(true);
    expect(transfer).toMatchObject({ startOffset: 0, totalBytes: text.byteLength, validator: '"1"' });
    expect(server.requests).toEqual([undefined]);
  });

  test('resumes with a range after an interruption', async () => {
    const server = new TextServer([{ ...plain, cutAfter: 1_000_001 }, plain]);
    expect((await download(server)).bytes.equals(text)).toBe(true);
    expect(server.requests).toEqual([undefined, { offset: 1_000_001, validator: '"1"' }]);
  });

  test.each<[string, Partial<Turn>]>([
    ['the service ignores ranges', { ranges: 'ignored' }],
    ['the service has only a weak validator', { etag: 'W/"1"' }],
    ['the service has no validator', { etag: undefined }],
    ['the length is unknown', { sendsLength: false }],
    ['the service sends another range than was asked for', { ranges: 'wrong' }],
    ['the service says that there is no such range', { ranges: 'none' }],
  ])('is read again and compared where %s', async (_, habits) => {
    const server = new TextServer([
      { ...plain, ...habits, cutAfter: 1_000_001 },
      { ...plain, ...habits, cutAfter: 2_500_000 },
      { ...plain, ...habits },
    ]);
    expect((await download(server)).bytes.equals(text)).toBe(true);
  });

  test.each<[string, Partial<Turn>]>([
    ['another ETag', { etag: '"2"', text: other }],
    ['another ETag, from a service that does not look at If-Range', { etag: '"2"', text: other, ranges: 'careless' }],
    ['another length', { etag: undefined, text: text.subarray(1) }],
    ['the same beginning and a longer end', { etag: undefined, text: Buffer.concat([text, text]) }],
    ['other bytes under the old ETag, without ranges', { ranges: 'ignored', text: other }],
    ['other bytes without an ETag', { etag: undefined, text: other }],
    ['an earlier end, of unknown length', { etag: undefined, sendsLength: false, text: text.subarray(0, 1_000_000) }],
  ])('that comes back with %s has changed', async (_, habits) => {
    const server = new TextServer([
      { ...plain, cutAfter: 1_000_001 },
      { ...plain, ...habits },
    ]);
    await expect(download(server)).rejects.toMatchObject({ code: 'firmware-changed', remedy: 'retry' });
  });

  test('is compared up to the last byte that was seen, not up to the last whole block', async () => {
    const changed = Buffer.from(text);
    changed[1_048_599] = 255 - (changed[1_048_599] ?? 0);
    const server = new TextServer([
      { ...plain, ranges: 'ignored', cutAfter: 1_048_600 },
      { ...plain, ranges: 'ignored', text: changed },
    ]);
    await expect(download(server)).rejects.toMatchObject({ code: 'firmware-changed' });
  });

  test('that ends before its announced length is taken up again', async () => {
    const short = { ...plain, ranges: 'ignored' as const };
    const server = new TextServer([
      { ...short, text: text.subarray(0, 10), sendsLength: false, etag: undefined },
      short,
    ]);
    expect((await download(server)).bytes).toHaveLength(10);
    const told = new TextServer([{ ...plain, cutAfter: 10 }, { ...plain, cutAfter: 10 }, plain]);
    expect((await download(told)).bytes.equals(text)).toBe(true);
  });

  test('fails after a number of attempts without a new byte, with the offset and the last reason', async () => {
    const server = new TextServer([
      { ...plain, cutAfter: 1_000 },
      { ...plain, cutAfter: -1 },
    ]);
    const clock = new ManualClock();
    await expect(download(server, undefined, { clock })).rejects.toMatchObject({
      code: 'connection-reset',
      message: 'firmware of version 1, byte 1000: the connection was cut',
    });
    expect(server.requests).toHaveLength(3);
    expect(clock.slept).toEqual([50, 100]);
  });

  test('continues as long as there are new bytes', async () => {
    const server = new TextServer([...Array.from({ length: 20 }, () => ({ ...plain, cutAfter: 100_000 })), plain]);
    expect((await download(server)).bytes.equals(text)).toBe(true);
  });

  test('waits as long as the service asks, within bounds', async () => {
    const busy = new ServiceError({ code: 'service-unavailable', why: 'busy', retryAfterMs: 60_000 });
    const server = new TextServer([{ ...plain, cutAfter: 1 }, plain]);
    const clock = new ManualClock();
    let calls = 0;
    const request: DownloadDeps['request'] = async (range, requestSignal) => {
      calls += 1;
      if (calls === 2) throw busy;
      return server.request(range, requestSignal);
    };
    await download(server, undefined, { request, clock });
    expect(clock.slept).toEqual([50, 5_000 + 500]); // and what is drawn comes after it
  });

  test.each(['key-rejected', 'service-not-found', 'reply-malformed'] as const)('%s is not waited for', async (code) => {
    const server = new TextServer([{ ...plain, cutAfter: 1 }]);
    let calls = 0;
    const request: DownloadDeps['request'] = async (range, requestSignal) => {
      calls += 1;
      if (calls === 2) throw new ServiceError({ code, why: 'no' });
      return server.request(range, requestSignal);
    };
    await expect(download(server, undefined, { request })).rejects.toMatchObject({ code });
    expect(calls).toBe(2);
  });

  test('that is longer than announced is refused', async () => {
    const lying = { ...plain, sendsLength: true };
    const server = new TextServer([lying]);
    const request: DownloadDeps['request'] = async (range, requestSignal) => {
      const reply = await server.request(range, requestSignal);
      return { ...reply, header: (name) => (name === 'content-length' ? '100' : reply.header(name)) };
    };
    await expect(download(server, undefined, { request })).rejects.toMatchObject({ code: 'reply-malformed' });
  });

  test('has a deadline of its own', async () => {
    const server = new TextServer([plain]);
    const request: DownloadDeps['request'] = async (range, requestSignal) => {
      const reply = await server.request(range, requestSignal);
      const silent = async function* (): AsyncGenerator<Uint8Array> {
        await new Promise((_, reject) => requestSignal.addEventListener('abort', () => reject(requestSignal.reason)));
        yield Buffer.alloc(0);
      };
      return { ...reply, status: 200, chunks: silent };
    };
    await expect(download(server, undefined, { request, deadlineMs: 1 })).rejects.toMatchObject({
      code: 'total-timeout',
    });
  });

  test('ends immediately, with the given reason, when the reader stops', async () => {
    const controller = new AbortController();
    const server = new TextServer([{ ...plain, cutAfter: 1_000 }]);
    await using transfer = await FirmwareDownload.open(context(server), undefined, controller.signal);
    const reason = new Error('stop');
    const reading = (async () => {
      for await (const chunk of transfer.chunks) if (chunk.byteLength > 0) controller.abort(reason);
    })();
    await expect(reading).rejects.toBe(reason);
  });

  test('leaves no reply open, whatever happens', async () => {
    const server = new TextServer([{ ...plain, cutAfter: 1_000 }, { ...plain, ranges: 'wrong' }, plain]);
    await download(server);
    expect(server.openReplies).toBe(0);
    await using transfer = await FirmwareDownload.open(context(server), undefined, signal);
    for await (const chunk of transfer.chunks) if (chunk.byteLength > 0) break;
    await transfer[Symbol.asyncDispose]();
    expect(server.openReplies).toBe(0);
  });
});

describe('a transfer that goes on after a restart', () => {
  const from: WirePosition = { offset: 2_000_000, validator: '"1"', totalBytes: text.byteLength };

  test('starts at its position if the text is still the same', async () => {
    const { transfer, bytes } = await download(new TextServer([{ ...plain, cutAfter: 500_000 }, plain]), from);
    expect(transfer.startOffset).toBe(2_000_000);
    expect(bytes.equals(text.subarray(2_000_000))).toBe(true);
  });

  test.each<[string, Partial<Turn>]>([
    ['the text changed', { etag: '"2"', text: other }],
    ['the service ignores ranges', { ranges: 'ignored' }],
    ['the service sends another range', { ranges: 'wrong' }],
    ['the service has no such range', { ranges: 'none' }],
    ['the text has another length under the same ETag', { text: text.subarray(0, 2_500_000) }],
  ])('starts at 0 if %s', async (_, habits) => {
    const turn = { ...plain, ...habits };
    const { transfer, bytes } = await download(new TextServer([turn]), from);
    expect(transfer.startOffset).toBe(0);
    expect(transfer.totalBytes).toBe(turn.text.byteLength);
    expect(bytes.equals(turn.text)).toBe(true);
  });

  test.each<[string, Partial<WirePosition>]>([
    ['at the end', { offset: text.byteLength }],
    ['with a weak validator', { validator: 'W/"1"' }],
    ['with a validator that is none', { validator: '"1"\r\nx: y' }],
  ])('is not asked for at a position %s', async (_, wrong) => {
    const server = new TextServer([plain]);
    expect((await download(server, { ...from, ...wrong })).transfer.startOffset).toBe(0);
    expect(server.requests).toEqual([undefined]);
  });

  test.each([0, 10])('has changed if after %i bytes the service sends it only from its beginning', async (cutAfter) => {
    const server = new TextServer([
      { ...plain, cutAfter },
      { ...plain, ranges: 'ignored' },
    ]);
    await expect(download(server, from)).rejects.toMatchObject({ code: 'firmware-changed' });
  });
});

describe('whatever happens on the way', () => {
  const small = text.subarray(0, 5_000);
  const smallOther = other.subarray(0, 5_000);
  const habits = {
    etag: fc.constantFrom('"1"', 'W/"1"', undefined),
    sendsLength: fc.boolean(),
    ranges: fc.constantFrom<Turn['ranges']>('right', 'ignored', 'wrong', 'careless', 'none'),
    chunkBytes: fc.integer({ min: 100, max: 6_000 }),
  };
  const cutTurn = fc.record({ ...habits, text: fc.constant(small), cutAfter: fc.integer({ min: -1, max: 4_999 }) });
  const lastTurn = fc.record({ ...habits, text: fc.constant(small), cutAfter: fc.constant(undefined) });
  const patient = { resume: { attempts: 100, firstDelayMs: 1, maxDelayMs: 1, maxRetryAfterMs: 1 } };

  test('the text is what it is, without gaps and without doubles', async () => {
    await fc.assert(
      fc.asyncProperty(lastTurn, fc.array(cutTurn, { maxLength: 12 }), lastTurn, async (first, turns, last) => {
        const opening = { ...first, cutAfter: 0 };
        const { bytes } = await download(new TextServer([opening, ...turns, last]), undefined, patient);
        expect(bytes.equals(small)).toBe(true);
      }),
      { numRuns: 300 },
    );
  });

  test('two texts are never mixed', async () => {
    const changed = fc.record({
      ...habits,
      etag: fc.constantFrom('"2"', 'W/"2"', undefined),
      text: fc.constant(smallOther),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(cutTurn, { maxLength: 6 }), changed, async (turns, after) => {
        const opening = { ...plain, text: small, cutAfter: 1 };
        const server = new TextServer([opening, ...turns, { ...after, cutAfter: undefined }]);
        const ending = await download(server, undefined, patient).then(
          ({ bytes }) => (bytes.equals(small) ? 'whole before the change' : 'mixed'),
          (error: unknown) => (error instanceof ServiceError ? error.code : error),
        );
        expect(['firmware-changed', 'whole before the change']).toContain(ending);
      }),
      { numRuns: 300 },
    );
  });
});
