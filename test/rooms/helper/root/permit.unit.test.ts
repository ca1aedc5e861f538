import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { leavePermit, permitToGoBack, takePermit } from '../../../../src/helper/root/permit.ts';
import type { PermitPlace } from '../../../../src/helper/root/permit.ts';
import { initialState } from '../../../../src/update/journal/state.ts';

const older = { kind: 'downgrade', digest: 'sha256:0a' } as const;

let folder: string;
let bootId: string;
let uptimeS: number;
let place: PermitPlace;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'permit-'));
  bootId = 'this boot';
  uptimeS = 1_000;
  place = { folder, machine: { bootId: async () => bootId }, uptimeS: () => uptimeS };
});
afterEach(async () => {
  await rm(folder, { recursive: true });
});

describe('a permit of root', () => {
  test('is for its owner alone to read, and is taken once', async () => {
    await leavePermit(older, place);
    expect((await stat(join(folder, 'permit.json'))).mode & 0o777).toBe(0o600);
    expect(await takePermit(place)).toEqual(older);
    expect(await readdir(folder)).toEqual([]);
    expect(await takePermit(place)).toBeUndefined();
  });

  test('is taken once also by who put it back: it ends after some minutes, and with the boot', async () => {
    await leavePermit(older, place);
    const kept = await readFile(join(folder, 'permit.json'));
    const putBack = async (): Promise<void> => writeFile(join(folder, 'permit.json'), kept, { mode: 0o600 });
    uptimeS += 179;
    expect(await takePermit(place)).toEqual(older);
    await putBack();
    uptimeS += 1;
    expect(await takePermit(place)).toBeUndefined();
    await putBack();
    uptimeS = 10;
    bootId = 'the next boot';
    expect(await takePermit(place)).toBeUndefined();
    await putBack();
    bootId = 'this boot';
    expect(await takePermit(place)).toBeUndefined();
    expect(await readdir(folder)).toEqual([]);
  });

  test('is gone when the command that left it has ended', async () => {
    {
      await using _left = await leavePermit(older, place);
    }
    expect(await readdir(folder)).toEqual([]);
  });

  test('counts only where nobody else could have left it', async () => {
    await leavePermit(older, place);
    await chmod(folder, 0o777);
    await expect(takePermit(place)).rejects.toMatchObject({ code: 'writable-by-others' });
    await chmod(folder, 0o755);
    await chmod(join(folder, 'permit.json'), 0o666);
    await expect(takePermit(place)).rejects.toMatchObject({ code: 'writable-by-others' });
  });

  test.each([
    '',
    '{',
    '[]',
    '{"bootId":"this boot","untilS":1100}',
    '{"bootId":"this boot","untilS":1e9,"permitted":{}}',
  ])('is none that reads %j', async (text) => {
    await writeFile(join(folder, 'permit.json'), text, { mode: 0o600 });
    expect(await takePermit(place)).toBeUndefined();
  });

  test('cannot be left where this user may not write', async () => {
    expect(await leavePermit(older, { ...place, folder: join(folder, 'missing') })).toBeUndefined();
  });

  test('to go back is for what is installed now, and was before', async () => {
    const installed = (digest: string): NonNullable<typeof initialState.installed> => ({
      version: { name: digest },
      digest,
      payloads: [],
      provides: {},
      at: '2026-03-01T12:00:00.000Z',
    });
    const now = { ...initialState, installed: installed('b'), previous: { ...installed('a'), slot: 'A' as const } };
    await leavePermit(permitToGoBack(now), place);
    expect(await takePermit(place)).toEqual(permitToGoBack(now));
    expect(permitToGoBack({ ...now, installed: installed('c') })).not.toEqual(permitToGoBack(now));
    expect(permitToGoBack({ ...now, previous: undefined })).not.toEqual(permitToGoBack(now));
  });
});
