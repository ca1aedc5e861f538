import { constants, createGunzip, createZstdDecompress } from 'node:zlib';
import type { Gunzip, ZstdDecompress } from 'node:zlib';

import { describeError, systemErrorCode } from '../../system/errors.ts';
import { BLOCK_BYTES, BlockSource } from '../block-source.ts';
import { FirmwareFormatError } from '../errors.ts';
import { pump } from '../pump.ts';

/**
 * The largest zstd window that is accepted: 32 MiB of memory. The levels of zstd up to 20 stay below; RFC 8878, section
 * 3.1.1.1.2, demands 8 MiB of every decoder.
 */
const ZSTD_WINDOW_LOG = 25;

type Kind = 'gzip' | 'zstd';

/** Implements decompress() of compression.ts on Node's threads. */
export async function* decompressWithZlib(
  kind: Kind,
  bytes: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, undefined> {
  const source = new BlockSource(bytes);
  try {
    do {
      const member = kind === 'gzip' ? openGunzip() : openZstd();
      const from = source.offset;
      const translate = (error: unknown): unknown => translateError(kind, from + member.bytesWritten, error);
      const takenBytes = (): number => member.bytesWritten;
      const stop = (): void => void member.destroy();
      yield* pump({ name: kind, input: member, output: member, takenBytes, stop }, source, translate, signal);
      stop();
      // Node itself continues from one gzip member to the next, but from one zstd frame to the next only at the end of
      // a block.
    } while (!(await source.atEnd()));
  } finally {
    source.close();
  }
}

function openGunzip(): Gunzip {
  return createGunzip({ chunkSize: BLOCK_BYTES });
}

function openZstd(): ZstdDecompress {
  return createZstdDecompress({
    chunkSize: BLOCK_BYTES,
    params: { [constants.ZSTD_d_windowLogMax]: ZSTD_WINDOW_LOG },
  });
}

/**
 * Translates an error of zlib (codes: node:zlib, "Constants") or zstd (zstd_errors.h). `offset` is the last place
 * without an error.
 */
function translateError(kind: Kind, offset: number, error: unknown): unknown {
  const code = systemErrorCode(error) ?? '';
  const why = describeError(error);
  if (code === 'Z_BUF_ERROR') {
    return new FirmwareFormatError('compression-truncated', `${kind} stream`, offset, 'is truncated');
  }
  if (code === 'ZSTD_error_prefix_unknown' || (code === 'Z_DATA_ERROR' && why === 'incorrect header check')) {
    return trailing(kind, offset);
  }
  if (code === 'ZSTD_error_frameParameter_windowTooLarge') {
    const advice = `its window is larger than ${2 ** (ZSTD_WINDOW_LOG - 20)} MiB: compress it without --long and --ultra`;
    return new FirmwareFormatError('compression-memory', `${kind} stream`, offset, advice);
  }
  return /^Z(?:STD)?_/.test(code)
    ? new FirmwareFormatError('compression-corrupt', `${kind} stream`, offset, why)
    : error;
}

function trailing(kind: Kind, offset: number): FirmwareFormatError {
  return new FirmwareFormatError(
    'compression-trailing',
    `${kind} stream`,
    offset,
    'something else stands behind its end',
  );
}
