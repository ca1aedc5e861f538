import type { BoardSettings } from '../settings.ts';
import type { Image } from './image.ts';

/** Throws a McuError for a file that is no image for this target. */
export type ReadBoardImage = (file: Uint8Array) => Promise<Image>;

/** What reads the formats is loaded with the first image. */
export function boardImageReader({ address, mcubootKeyFile }: BoardSettings): ReadBoardImage {
  return async (file) => {
    const { readImage } = await import('./read-image.ts');
    const { loadMcubootKey } = await import('../mcuboot-key.ts');
    const mcubootKey = mcubootKeyFile === undefined ? undefined : await loadMcubootKey(mcubootKeyFile);
    return readImage(file, { address, mcubootKey });
  };
}
