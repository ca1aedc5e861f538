import { operations } from '../../../../src/service/operations.ts';
import { parseContentLength, parseContentRange, strongValidator } from '../../../../src/service/rest/range-response.ts';
import type { CallOptions, Reply } from '../probe.ts';
import { fail, need, warn } from '../verdict.ts';
import type { Rule, Run, TextFacts } from '../verdict.ts';
import { textDecoder } from './firmware-text.ts';
import { isSuccess } from './replies.ts';

/** The number of bytes to request again. */
const TAIL_BYTES = 64 * 1024;

async function request(run: Run, versionId: string, options: CallOptions): Promise<Reply> {
  const { thingId, apiKey } = need(run.thing, 'activation');
  return run.probe.call(operations.firmware, { thingId, versionId }, { ...options, key: apiKey });
}

/** Returns a hint if a version was named on the command line. */
export function originOf(named: { readonly versionId: string | undefined }, versionId: string): string {
  return named.versionId === versionId ? `. Version ${versionId} comes from --version` : '';
}

/** Reads the whole text and decodes it as the agent does. */
export async function readText(run: Run, versionId: string): Promise<TextFacts> {
  const decoder = textDecoder();
  const tail: Uint8Array[] = [];
  let totalBytes = 0;
  let tailOffset = 0;
  const { headers, status } = await request(run, versionId, {
    onChunk: (chunk, reply) => {
      if (!isSuccess(reply.status)) return true;
      const announced = parseContentLength(reply.headers.get('content-length') ?? undefined) ?? 0;
      tailOffset = Math.max(Math.floor(announced / 2), announced - TAIL_BYTES);
      tail.push(chunk.slice(Math.max(0, tailOffset - totalBytes)));
      totalBytes += chunk.byteLength;
      decoder.push(chunk);
      return true;
    },
  });
  if (!isSuccess(status)) fail(`the status is ${status}; the interface states 200${originOf(run, versionId)}`);
  decoder.finish();
  const contentLength = headers.get('content-length');
  return { versionId, contentLength, etag: headers.get('etag'), totalBytes, tailOffset, tail: Buffer.concat(tail) };
}

function resumable(run: Run): TextFacts & { readonly validator: string } {
  const text = need(run.text, 'firmware-text');
  const validator = strongValidator(text.etag ?? undefined);
  return { ...text, validator: validator ?? warn('not tested: the firmware has no strong ETag') };
}

function expectRest(reply: Reply, rest: Buffer, { etag, totalBytes, tailOffset, tail }: TextFacts): void {
  const range = parseContentRange(reply.headers.get('content-range') ?? undefined);
  const wanted = `bytes ${tailOffset}-${totalBytes - 1}/${totalBytes}`;
  const isRest = range?.first === tailOffset && range.last === totalBytes - 1 && range.totalBytes === totalBytes;
  if (!isRest) fail(`the Content-Range is ${reply.headers.get('content-range') ?? 'missing'}; expected ${wanted}`);
  if (reply.headers.get('etag') !== etag) {
    fail(`the ETag of the part is ${reply.headers.get('etag') ?? 'missing'}; expected that of the whole text, ${etag}`);
  }
  if (!rest.equals(tail)) fail('the bytes of the part differ from those of the whole text');
}

export const firmwareRules: readonly Rule[] = [
  {
    id: 'firmware-text',
    title: 'the firmware is one JSON string: base64, base64url or hexadecimal digits',
    source: 'interface',
    check: async (run) => {
      run.text = await readText(run, run.versionId ?? need(run.target, 'target').id);
    },
  },
  {
    id: 'firmware-length',
    title: 'the firmware has a Content-Length: without it the agent cannot resume a download',
    source: 'agent',
    check: async (run) => {
      const { contentLength } = need(run.text, 'firmware-text');
      if (contentLength === null) warn('the Content-Length is missing. The agent starts an interrupted download again');
    },
  },
  {
    id: 'firmware-etag',
    title: 'the firmware has a strong ETag: without it the agent cannot resume a download',
    source: 'agent',
    check: async (run) => {
      const { etag } = need(run.text, 'firmware-text');
      if (strongValidator(etag ?? undefined) !== undefined) return;
      warn(`the ETag is ${etag ?? 'missing'}. The agent starts an interrupted download again`);
    },
  },
  {
    id: 'firmware-range',
    title: 'the rest of the firmware is returned for Range and If-Range',
    source: 'agent',
    check: async (run) => {
      const text = resumable(run);
      const rest: Uint8Array[] = [];
      const reply = await request(run, text.versionId, {
        headers: { range: `bytes=${text.tailOffset}-`, 'if-range': text.validator },
        onChunk: (chunk, { status }) => (status === 206 ? rest.push(chunk) > 0 : false),
      });
      if (reply.status === 200) {
        warn(
          reply.headers.get('etag') === text.etag
            ? 'the whole text is returned. The agent reads it again, and compares it with the part that it has'
            : 'the whole text is returned, with another ETag. The agent starts the download again: a poor line may never end it',
        );
      }
      if (reply.status === 416) warn('the status is 416. The agent requests the whole text');
      if (reply.status !== 206) fail(`the status is ${reply.status}; expected 206, or 200 with the whole text`);
      expectRest(reply, Buffer.concat(rest), text);
    },
  },
  {
    id: 'firmware-if-range',
    title: 'the whole firmware is returned if If-Range names another ETag',
    source: 'agent',
    check: async (run) => {
      const text = resumable(run);
      const headers = { range: `bytes=${text.tailOffset}-`, 'if-range': '"conform-another-text"' };
      const { status } = await request(run, text.versionId, { headers, onChunk: () => false });
      if (status === 206) fail('a part is returned although the condition is false: two images would be mixed');
      if (status !== 200) fail(`the status is ${status}; expected 200 with the whole text`);
    },
  },
];
