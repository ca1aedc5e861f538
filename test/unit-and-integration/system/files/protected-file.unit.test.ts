import type { Stats } from 'node:fs';

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { findExposures } from '../../../../src/system/files/protected-file.ts';
import type { StatFs } from '../../../../src/system/files/protected-file.ts';

interface Place {
  readonly mode: number;
  readonly uid?: number;
  readonly to?: string;
  readonly isDevice?: true;
}

const OUR_UID = 200;
const folder: Place = { mode: 0o755 };
const file: Place = { mode: 0o644 };
const sound: Readonly<Record<string, Place>> = {
  '/': folder,
  '/etc': folder,
  '/etc/agent': folder,
  '/etc/agent/key': file,
};

function diskOf(places: Readonly<Record<string, Place>>): StatFs {
  const at = (path: string): Place => {
    const place = places[path];
    if (place === undefined) throw Object.assign(new Error(`nothing at ${path}`), { code: 'ENOENT' });
    return place;
  };
  const factsOf = (path: string): Stats => {
    const { mode, uid = 0, to, isDevice = false } = at(path);
    const isFolder = Object.keys(places).some(
      (other) => other !== path && other.startsWith(`${path}/`.replace('//', '/')),
    );
    return {
      mode,
      uid,
      gid: 7,
      isSymbolicLink: () => to !== undefined,
      isDirectory: () => isFolder,
      isCharacterDevice: () => isDevice,
      isBlockDevice: () => false,
    } as Stats;
  };
  return {
    lstat: async (path: string) => factsOf(path),
    readlink: async (path: string) => at(path).to ?? '',
  };
}

async function mendsOf(places: Readonly<Record<string, Place>>, path = '/etc/agent/key'): Promise<readonly string[]> {
  return (await findExposures(path, diskOf({ ...sound, ...places }), OUR_UID)).map(({ fix }) => fix);
}

describe('a file is trusted', () => {
  test.each<[string, Readonly<Record<string, Place>>]>([
    ['that only root may write', {}],
    ['that is ours', { '/etc/agent/key': { mode: 0o600, uid: OUR_UID }, '/etc/agent': { mode: 0o755, uid: OUR_UID } }],
    ['of ours in a sticky folder', { '/etc': { mode: 0o1777 } }],
    ['that everybody may read', { '/etc/agent/key': { mode: 0o444 } }],
    ['behind a link of root’s', { '/etc/agent/key': { mode: 0o777, to: '../key' }, '/etc/key': file }],
    ['behind an absolute link', { '/etc/agent': { mode: 0o777, to: '/a' }, '/a': folder, '/a/key': file }],
    ['that does not exist: who reads it tells that', { '/etc/agent/key': { mode: 0o777, to: '/nowhere' } }],
    ['that cannot be reached, for a circle of links', { '/etc/agent': { mode: 0o777, to: '/etc/agent' } }],
  ])('%s', async (_, places) => {
    expect(await mendsOf(places)).toEqual([]);
  });
});

describe('a file is refused', () => {
  test.each<[string, Readonly<Record<string, Place>>, readonly string[], string?]>([
    ['that everybody may write', { '/etc/agent/key': { mode: 0o646 } }, ['chmod go-w /etc/agent/key']],
    ['that its group may write', { '/etc/agent/key': { mode: 0o664 } }, ['chmod go-w /etc/agent/key']],
    ['of somebody else', { '/etc/agent/key': { mode: 0o400, uid: 9 } }, ['chown root: /etc/agent/key']],
    ['in a folder of somebody else', { '/etc/agent': { mode: 0o555, uid: 9 } }, ['chown root: /etc/agent']],
    ['below a folder that others may write', { '/etc': { mode: 0o777 } }, ['chmod go-w /etc']],
    ['below a root that others may write', { '/': { mode: 0o775 } }, ['chmod go-w /']],
    [
      'of somebody else in a sticky folder',
      { '/etc': { mode: 0o1777 }, '/etc/agent': { mode: 0o755, uid: 9 } },
      ['chown root: /etc/agent'],
    ],
    ['in a sticky folder of somebody else', { '/etc': { mode: 0o1777, uid: 9 } }, ['chown root: /etc']],
    [
      'behind a link of somebody else in a sticky folder',
      { '/etc/agent': { mode: 0o1777 }, '/etc/agent/key': { mode: 0o777, uid: 9, to: '/etc/key' }, '/etc/key': file },
      ['chown -h root: /etc/agent/key'],
    ],
    [
      'behind a link into a folder that others may write',
      { '/etc/agent/key': { mode: 0o777, to: '/srv/key' }, '/srv': { mode: 0o777 }, '/srv/key': file },
      ['chmod go-w /srv'],
    ],
    [
      'that ".." reaches from where a link leads, as for the kernel',
      {
        '/etc/trust': { mode: 0o777, to: '/open/keys' },
        '/open': { mode: 0o755, uid: 9 },
        '/open/keys': folder,
        '/open/key': { mode: 0o666 },
        '/etc/key': file,
      },
      ['chown root: /open', 'chmod go-w /open/key'],
      '/etc/trust/../key',
    ],
    [
      'behind a link to a device, which stays as it is',
      {
        '/etc/agent/key': { mode: 0o777, to: '/dev/zero' },
        '/dev': folder,
        '/dev/zero': { mode: 0o666, isDevice: true },
      },
      ['rm /etc/agent/key'],
    ],
    ['that is a device', { '/etc/agent/key': { mode: 0o666, isDevice: true } }, ['another path that is not a device']],
    [
      'for several reasons, each of which is named once',
      { '/etc': { mode: 0o777 }, '/etc/agent/key': { mode: 0o777, to: '/etc/k' }, '/etc/k': { mode: 0o666 } },
      ['chmod go-w /etc', 'chmod go-w /etc/k'],
    ],
  ])('%s', async (_, places, mends, path) => {
    expect(await mendsOf(places, path)).toEqual(mends);
  });

  test('with a line for the shell whatever its name', async () => {
    const path = "/etc/it's $(here)";
    expect(await mendsOf({ [path]: { mode: 0o666 } }, path)).toEqual([String.raw`chmod go-w '/etc/it'\''s $(here)'`]);
  });
});

test('once every named problem was fixed, none is left, for any directories', async () => {
  const place = fc.record({
    mode: fc.constantFrom(0o755, 0o775, 0o777, 0o1777, 0o1775, 0o700),
    uid: fc.constantFrom(0, OUR_UID, 9),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.dictionary(fc.constantFrom('/', '/etc', '/etc/agent', '/etc/agent/key'), place),
      async (some) => {
        const places = { ...sound, ...some };
        const fixed = Object.fromEntries(
          Object.entries(places).map(([path, { mode, uid = 0 }]) => [path, { mode, uid }]),
        );
        for (const { path, fix } of await findExposures('/etc/agent/key', diskOf(places), OUR_UID)) {
          const { mode = 0, uid = 0 } = fixed[path] ?? {};
          fixed[path] = fix.startsWith('chown') ? { mode, uid: 0 } : { mode: mode & ~0o022, uid };
        }
        const left = await findExposures('/etc/agent/key', diskOf(fixed), OUR_UID);
        // A file that belongs to root now may still be open to others: that is named next.
        expect(left.every(({ fix }) => fix.startsWith('chmod'))).toBe(true);
        for (const { path } of left) fixed[path] = { mode: 0o755, uid: 0 };
        expect(await findExposures('/etc/agent/key', diskOf(fixed), OUR_UID)).toEqual([]);
      },
    ),
  );
});
