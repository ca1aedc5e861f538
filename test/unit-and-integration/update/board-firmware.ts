import type { FirmwareHeader, PayloadHeader } from '../../../src/update/ports.ts';
import type { IncomingPayload, OpenFirmware } from '../../../src/update/ports/incoming.ts';
import { sha256 } from '../../fakes/machine/memory/memory-slots.ts';

/** Contents of an update, by target. */
export type Contents = Readonly<Record<string, string>>;

/** Represents the module firmware: the encoded text is the version's ID. Without an order, boards are flashed in parallel. */
export function openContents(firmware: Readonly<Record<string, Contents>>, isOrdered = true): OpenFirmware {
  return async (request, signal) => {
    await using transfer = await request.source.open(undefined, signal);
    let id = '';
    for await (const chunk of transfer.chunks) id += Buffer.from(chunk).toString('latin1');
    const contents = Object.entries(firmware[id] ?? {});
    const headers = contents.map(([name], index): PayloadHeader => ({
      fileName: name,
      target: { name },
      order: isOrdered ? index : undefined,
    }));
    const header: FirmwareHeader = {
      kind: 'artifact',
      digest: sha256(Buffer.from(id)),
      name: `version ${id}`,
      signedBy: 'release',
      payloads: headers,
    };
    const payloads = incoming(headers, Object.values(firmware[id] ?? {}));
    return { header, payloads, [Symbol.asyncDispose]: async () => {} };
  };
}

async function* incoming(
  headers: readonly PayloadHeader[],
  contents: readonly string[],
): AsyncGenerator<IncomingPayload, void, undefined> {
  for (const [index, payload] of headers.entries()) {
    const content = contents[index] ?? '';
    const write: IncomingPayload['write'] = async ({ writer }, signal) => {
      await writer.write(Buffer.from(content, 'latin1'));
      const written = await writer.finish(signal);
      return { header: payload, written, promise: { kind: 'manifest', digest: written.digest } };
    };
    yield { payload, sizeBytes: content.length, resumeAt: undefined, isRebuilt: false, write };
  }
}
