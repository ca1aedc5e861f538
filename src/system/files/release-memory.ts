/** A smaller buffer may be somebody's constant, and would free too little. */
const leastBytes = 16 * 1024;

/**
 * Frees the memory of a used chunk at once, instead of at a garbage collection 60 MiB later; the next chunk then uses
 * memory that is still in the processor's cache. Does so only for a chunk at the end of its buffer, behind which
 * nothing follows, and never for a shared buffer.
 */
export function releaseMemory({ buffer, byteOffset, byteLength }: Uint8Array): void {
  const isLast = byteOffset + byteLength === buffer.byteLength;
  const mayBeShared = byteOffset > 0 && buffer.byteLength <= Buffer.poolSize;
  if (isLast && !mayBeShared && byteLength >= leastBytes && buffer instanceof ArrayBuffer) buffer.transfer(0);
}
