/** What is smaller may be a constant of somebody, and is not worth it. */
const leastBytes = 16 * 1024;

/**
 * Gives the memory of a used chunk back now, instead of at some garbage collection 60 MiB later; the next chunk is then
 * read into memory that the processor still has at hand. Only of a chunk at the end of its buffer, behind which nothing
 * will come, and of no buffer that is shared with others.
 */
export function giveBack({ buffer, byteOffset, byteLength }: Uint8Array): void {
  const isLast = byteOffset + byteLength === buffer.byteLength;
  const mayBeShared = byteOffset > 0 && buffer.byteLength <= Buffer.poolSize;
  if (isLast && !mayBeShared && byteLength >= leastBytes && buffer instanceof ArrayBuffer) buffer.transfer(0);
}
