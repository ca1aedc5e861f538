import fc from 'fast-check';
import { expect, test } from 'vitest';

import { coveringMount, lowerLayers, parseMountinfo } from '../../../src/slots/mountinfo.ts';

const sample = String.raw`22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 179:2 / / rw,relatime shared:1 master:2 - ext4 /dev/mmcblk0p2 rw,errors=continue
31 27 179:6 / /mnt/with\040space\011and\134slash rw - ext4 /dev/disk\040x rw
44 27 0:40 / /merged ro - overlay over\040lay rw,lowerdir=/media/root-ro:/mnt/b\134\054c\134\072:relative,upperdir=/up,workdir=/w`;

test('reads device, mount point, type, source and options, with or without optional fields', () => {
  expect(parseMountinfo(sample).slice(0, 2)).toEqual([
    { device: '0:21', mountPoint: '/proc', root: '/', fileSystem: 'proc', source: 'proc', options: ['rw'] },
    {
      device: '179:2',
      mountPoint: '/',
      root: '/',
      fileSystem: 'ext4',
      source: '/dev/mmcblk0p2',
      options: ['rw', 'errors=continue'],
    },
  ]);
});

test('undoes the escapes of space, tab and backslash', () => {
  const mount = parseMountinfo(sample)[2];
  expect(mount?.mountPoint).toBe('/mnt/with space\tand\\slash');
  expect(mount?.source).toBe('/dev/disk x');
});

test('leaves out what has another shape, and never throws', () => {
  expect(parseMountinfo('')).toEqual([]);
  expect(parseMountinfo('1 2 3:4 / /x rw\n1 2 - - - - - - -\n- - -')).toEqual([]);
  fc.assert(fc.property(fc.string(), (text) => parseMountinfo(text).length <= text.split('\n').length));
});

test('whatever a mount point is called, it survives the kernel’s escaping', () => {
  const escape = (text: string): string =>
    text.replaceAll(/[ \t\n\\]/gu, (char) => `\\${char.charCodeAt(0).toString(8).padStart(3, '0')}`);
  fc.assert(
    fc.property(fc.string(), (name) => {
      const line = `1 2 8:1 / ${escape(`/${name}`)} rw shared:1 - ext4 /dev/sda1 rw`;
      expect(parseMountinfo(line)[0]?.mountPoint).toBe(`/${name}`);
    }),
  );
});

test.each([
  ['/', '/'],
  ['/merged', '/merged'],
  ['/merged/usr', '/merged'],
  ['/mergedly', '/'],
])('%s is below the mount point %s', (path, mountPoint) => {
  expect(coveringMount(path, parseMountinfo(sample))?.mountPoint).toBe(mountPoint);
});

test('of two mounts on one place the later one counts', () => {
  const later = '50 27 8:9 / / rw - ext4 /dev/sdb1 rw';
  expect(coveringMount('/', parseMountinfo(`${sample}\n${later}`))?.device).toBe('8:9');
});

test('names the layers below an overlay, and none for other file systems', () => {
  const mounts = parseMountinfo(sample);
  expect(mounts.map(lowerLayers)).toEqual([[], [], [], ['/media/root-ro', '/mnt/b,c:']]);
  const appended = parseMountinfo('1 2 0:9 / / rw - overlay o rw,lowerdir+=/a,lowerdir+=/b');
  expect(appended.flatMap(lowerLayers)).toEqual(['/a', '/b']);
});
