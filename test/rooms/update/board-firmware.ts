import type { FirmwareHeader, PayloadHeader, StagedPayload, StageFirmware } from '../../../src/update/ports.ts';
import { sha256 } from '../../stand-ins/machine/memory/memory-slots.ts';

/** What an update brings, by target. */
export type Contents = Readonly<Record<string, string>>;

/** Stands for the firmware room: the text is the version's id. */
export function stageContents(firmware: Readonly<Record<string, Contents>>): StageFirmware {
  return async (request, signal) => {
    await using transfer = await request.source.open(undefined, signal);
    let id = '';
    for await (const chunk of transfer.chunks) id += Buffer.from(chunk).toString('latin1');
    const contents = Object.entries(firmware[id] ?? {});
    const headers = contents.map(([name], index): PayloadHeader => ({
      fileName: name,
      target: { name },
      order: index,
    }));
    const header: FirmwareHeader = {
      kind: 'artifact',
      digest: sha256(Buffer.from(id)),
      name: `version ${id}`,
      signedBy: 'release',
      payloads: headers,
    };
    await request.accept(header);
    const payloads: StagedPayload[] = [];
    for (const [index, [, content]] of contents.entries()) {
      const payload = headers[index];
      if (payload === undefined) continue;
      await using writer = await request.openPayload({ payload, sizeBytes: content.length, resumeAt: undefined });
      await writer.write(Buffer.from(content, 'latin1'));
      const written = await writer.finish(signal);
      payloads.push({ header: payload, written, promise: { kind: 'manifest', digest: written.digest } });
    }
    return { header, digest: sha256(Buffer.from(id)), provides: {}, payloads };
  };
}
