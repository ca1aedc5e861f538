import type { StagedFirmware } from '../ports/incoming.ts';

/** For a person who watches: how much was written, and how much was there already. */
export function savedWrites(firmware: StagedFirmware): string {
  const total = firmware.payloads.reduce((sum, { written }) => sum + written.sizeBytes, 0);
  const unchanged = firmware.payloads.reduce((sum, { written }) => sum + written.unchangedBytes, 0);
  return unchanged === 0
    ? mebibytes(total)
    : `${mebibytes(total)}, of which ${mebibytes(unchanged)} were there already`;
}

function mebibytes(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}
