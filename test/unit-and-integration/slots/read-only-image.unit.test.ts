import { expect, test } from 'vitest';

import { HEAD_BYTES, isReadOnlyFormat } from '../../../src/slots/read-only-image.ts';

function imageWith(magic: Buffer, at: number): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  magic.copy(head, at);
  return head;
}

test.each([
  ['squashfs', Buffer.from('hsqs'), 0],
  ['erofs', Buffer.from('e2e1f5e0', 'hex'), 1024],
  ['cramfs', Buffer.from('453dcd28', 'hex'), 0],
  ['romfs', Buffer.from('-rom1fs-'), 0],
])('%s is a format to which nothing writes', (_name, magic, at) => {
  expect(isReadOnlyFormat(imageWith(magic, at))).toBe(true);
});

test.each([
  ['ext4', imageWith(Buffer.from('53ef', 'hex'), 1080)],
  ['blank', Buffer.alloc(HEAD_BYTES)],
  ['empty', Buffer.alloc(0)],
  ['squashfs at another place', imageWith(Buffer.from('hsqs'), 8)],
])('an image that is %s may be written to', (_name, head) => {
  expect(isReadOnlyFormat(head)).toBe(false);
});
