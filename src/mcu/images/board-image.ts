import type { BoardSettings } from '../settings.ts';
import type { Image } from './image.ts';

/** Throws a McuError for a file that is not an image for this target. Its name is omitted if it was accepted before. */
export type ReadBoardImage = (file: Uint8Array, fileName?: string) => Promise<Image>;

/** The readers of the formats are loaded with the first image. */
export function boardImageReader(
  settings: Pick<BoardSettings, 'protocol' | 'address' | 'format' | 'mcubootKeyFile'>,
): ReadBoardImage {
  const { protocol, address, format, mcubootKeyFile } = settings;
  return async (file, fileName) => {
    const { readImage } = await import('./read-image.ts');
    const { onlyPiece } = await import('./image.ts');
    const { loadMcubootKey } = await import('../mcuboot-key.ts');
    const mcubootKey = mcubootKeyFile === undefined ? undefined : await loadMcubootKey(mcubootKeyFile);
    const isRaw = format === 'raw' || fileName === undefined || /\.bin$/i.test(fileName);
    // XMODEM carries no addresses
    const start = address ?? (protocol === 'xmodem' ? 0 : undefined);
    const image = readImage(file, { address: start, isRaw, isForMcuboot: protocol === 'smp', mcubootKey });
    if (protocol === 'xmodem') onlyPiece(image);
    return image;
  };
}
