import type { TrustSettings } from '../../../../src/firmware/artifact/trust.ts';
import { firmwareOpener } from '../../../../src/firmware/open-firmware.ts';
import type { FirmwareSource, PayloadWriter } from '../../../../src/update/ports.ts';
import { sha256 } from '../../../fakes/machine/memory/memory-slots.ts';
import { stageInto } from '../../../unit-and-integration/firmware/stage-into.ts';

/** Compared with an artifact's. */
export const DEVICE_TYPE = 'swept-gateway';

const CHUNKS = 6;
const PAYLOAD_CHUNK_CHARACTERS = 20;

/** A reply of the service: one JSON string, in small pieces if it contains payloads. */
export interface Sent {
  readonly text: Uint8Array;
  readonly chunkEnds: readonly number[];
}

export function sent(decoded: Uint8Array, contents: readonly string[]): Sent {
  const text = Buffer.from(JSON.stringify(Buffer.from(decoded).toString('base64')));
  const ends = Array.from({ length: CHUNKS }, (_, n) => Math.ceil((text.length * (n + 1)) / CHUNKS));
  for (const content of contents.filter((each) => each !== '')) {
    const begin = 1 + Math.floor((Buffer.from(decoded).indexOf(content.slice(0, -1), 0, 'latin1') / 3) * 4);
    const end = begin + (content.length / 3) * 4;
    for (let at = begin; at < end; at += PAYLOAD_CHUNK_CHARACTERS) ends.push(at);
  }
  return { text, chunkEnds: ends.toSorted((one, other) => one - other) };
}

export async function digestOf(decoded: Uint8Array, trust: TrustSettings): Promise<string> {
  const open = firmwareOpener({ encoding: 'auto', trust, deviceType: DEVICE_TYPE });
  const request = {
    source: sourceOf(decoded),
    openPayload: async () => nowhere(),
    onProgress: () => {},
  };
  return (await stageInto(open, request, new AbortController().signal)).digest;
}

export function sourceOf(decoded: Uint8Array): FirmwareSource {
  return {
    form: 'decoded',
    open: async () => ({
      startOffset: 0,
      totalBytes: decoded.length,
      validator: undefined,
      chunks: once(decoded),
      [Symbol.asyncDispose]: async () => {},
    }),
  };
}

function nowhere(): PayloadWriter {
  let all = Buffer.alloc(0);
  const prefix = () => ({ sizeBytes: all.length, digest: sha256(all) });
  return {
    write: (chunk) => {
      all = Buffer.concat([all, chunk]);
      return undefined;
    },
    checkpoint: async () => prefix(),
    finish: async () => ({ ...prefix(), unchangedBytes: 0 }),
    [Symbol.asyncDispose]: async () => {},
  };
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}
