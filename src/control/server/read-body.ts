import type { IncomingMessage } from 'node:http';

import { GatheredBytes } from '../../system/gathered-bytes.ts';

/**
 * Returns the body of a request or a reply as UTF-8, or undefined if it is longer than `maxBytes`, by its header or as received.
 * Keeps at most that much in memory.
 */
export async function readBody(message: IncomingMessage, maxBytes: number): Promise<string | undefined> {
  if (Number(message.headers['content-length'] ?? 0) > maxBytes) return undefined;
  const body = new GatheredBytes();
  for await (const chunk of message as AsyncIterable<Buffer>) {
    if (body.sizeBytes + chunk.byteLength > maxBytes) return undefined;
    body.add(chunk);
  }
  return body.bytes.toString('utf8');
}
