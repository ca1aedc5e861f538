/** The part of an image that shows its format. */
export const HEAD_BYTES = 4096;

/** Sources: magic numbers of Linux (include/uapi/linux/magic.h, fs/erofs/erofs_fs.h, fs/romfs). */
const magics = [
  { at: 0, bytes: Buffer.from('hsqs', 'latin1') }, // squashfs
  { at: 1024, bytes: Buffer.from([0xe2, 0xe1, 0xf5, 0xe0]) }, // erofs
  { at: 0, bytes: Buffer.from([0x45, 0x3d, 0xcd, 0x28]) }, // cramfs
  { at: 512, bytes: Buffer.from([0x45, 0x3d, 0xcd, 0x28]) }, // cramfs behind a boot sector
  { at: 0, bytes: Buffer.from('-rom1fs-', 'latin1') }, // romfs
] as const;

/** True if the image has a format that is never written to, however it is mounted. */
export function isReadOnlyFormat(head: Uint8Array): boolean {
  return magics.some(({ at, bytes }) => bytes.equals(head.subarray(at, at + bytes.byteLength)));
}
