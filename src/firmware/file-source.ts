import type { FileContent } from '../system/files/opened-file.ts';
import type { FirmwareSource } from '../update/ports.ts';

/** A source that reads a decoded artifact or image from a file. Throws what reading the file throws. */
export function sourceOf(file: FileContent): FirmwareSource {
  return {
    form: 'decoded',
    open: async (_from, signal) => {
      signal.throwIfAborted();
      return {
        startOffset: 0,
        totalBytes: file.sizeBytes,
        validator: undefined,
        chunks: file.read(signal),
        [Symbol.asyncDispose]: async () => {},
      };
    },
  };
}
