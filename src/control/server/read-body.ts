import type { IncomingMessage } from 'node:http';

/**
 * Returns the body of a request or a reply as UTF-8, or undefined if it is longer than `maxBytes`, by its header or as received.
 * Keeps at most that much in memory.
 */
export async function readBody(message: IncomingMessage, maxBytes: number): Promise<string | undefined> {
  if (Number(message.headers['content-length'] ?? 0) > maxBytes) return undefined;
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of message as AsyncIterable<Buffer>) {
    size += chunk.byteLength;
    if (size > maxBytes) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
