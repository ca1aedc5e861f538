import { readdir, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, describe, expect, test } from 'vitest';

import { packageSteps } from '../../../src/cli/commands/self-update.ts';
import { versionsFromUpdates } from '../../../src/package/package-store.ts';
import { createPackageTarget } from '../../../src/package/package-target.ts';
import { evidenceOfKept } from '../../../src/update/evidence.ts';
import type { BoardPayload, PackageTarget, WrittenPayload } from '../../../src/update/ports.ts';
import { ManualClock } from '../../fakes/clock.ts';
import { folderUntilTestEnds } from '../../until-test-ends.ts';
import { deb, digestOf, FakeDpkg, putBackByGuard } from './fake-dpkg.ts';

const signal = new AbortController().signal;
const vouched = (payload: BoardPayload) =>
  [payload, evidenceOfKept({ target: 'app', recorded: payload.digest, found: payload.digest })] as const;
const settings = {
  kind: 'package',
  name: 'app',
  package: 'app',
  installDeadlineMs: 60_000,
  gracePeriodMs: 60_000,
} as const;
const [older, newer, newest] = [deb('1.0'), deb('1.1'), deb('1.2')];

let root: string;
let dpkg: FakeDpkg;
let target: PackageTarget;

beforeEach(() => {
  root = folderUntilTestEnds();
  dpkg = new FakeDpkg(older);
  target = newTarget();
});

function newTarget(askGuard = dpkg.ask): PackageTarget {
  const around = { clock: new ManualClock(), run: dpkg.run, healthMs: 1000, askGuard };
  return createPackageTarget(settings, join(root, 'app'), around);
}

function payload(bytes: Buffer): BoardPayload {
  return { digest: digestOf(bytes), onProgress: () => {} };
}

async function stage(bytes: Buffer): Promise<WrittenPayload> {
  const opening = {
    payload: { fileName: 'app.deb', target: { name: 'app' } },
    sizeBytes: undefined,
    resumeAt: undefined,
  };
  await using writer = await target.openFile(opening, signal);
  await writer.write(bytes);
  return await writer.finish(signal);
}

async function installWell(bytes: Buffer): Promise<void> {
  await stage(bytes);
  await target.flash(...vouched(payload(bytes)), signal);
}

describe('a package of an update', () => {
  test('is not touched with evidence of another one', async () => {
    await stage(newer);
    const [, evidence] = vouched(payload(newest));
    await expect(target.flash(payload(newer), evidence, signal)).rejects.toThrow('the evidence is of');
    expect(dpkg.version).toBe('1.0');
  });

  test('is stored by its digest, checked by dpkg before its installation, with a backup of the previous one', async () => {
    expect(await stage(newer)).toMatchObject({ digest: digestOf(newer), sizeBytes: newer.byteLength });
    expect(dpkg.version).toBe('1.0');
    expect(await target.digestOf(newer.byteLength, signal, digestOf(newer))).toBe(digestOf(newer));
    expect(await target.keeps(digestOf(newer))).toEqual({ payload: true, before: false });
    await target.flash(...vouched(payload(newer)), signal);
    expect(dpkg.exchanges).toEqual(['1.0 → 1.1']);
    expect(await target.keeps(digestOf(newer))).toEqual({ payload: true, before: true });
  });

  test.each([
    ['package-mismatch', deb('1.1', { name: 'stranger' })],
    ['package-architecture', deb('1.1', { architecture: 'riscv64' })],
    ['package-malformed', Buffer.from('no package')],
  ])('is refused as %s, and nothing of it stays', async (code, bytes) => {
    await expect(stage(bytes)).rejects.toMatchObject({ code, exit: 'refused' });
    expect(await readdir(join(root, 'app'))).toEqual([]);
  });

  test('that dpkg cannot read is refused in words without a path of the agent', async () => {
    await expect(stage(Buffer.from('no package'))).rejects.toThrow(
      'no package that dpkg can read: the payload is not a Debian format archive',
    );
  });

  test('is not installed if the installed one cannot be backed up', async () => {
    dpkg.unkeepable = true;
    await stage(newer);
    const failure = { code: 'package-backup-failed', message: expect.stringContaining('diverted') as string };
    await expect(target.flash(...vouched(payload(newer)), signal)).rejects.toMatchObject(failure);
    await target.restore(payload(newer), evidenceOfKept, signal);
    expect(dpkg.exchanges).toEqual([]);
  });

  test('is not installed where its file was changed on the disk', async () => {
    await stage(newer);
    await truncate(join(root, 'app', `${digestOf(newer).slice(7)}.deb`), 5);
    await expect(target.flash(...vouched(payload(newer)), signal)).rejects.toMatchObject({ code: 'package-damaged' });
    expect(dpkg.exchanges).toEqual([]);
  });

  test('reports each replacement by the step at which a command expects the end of the agent', async () => {
    const steps: string[] = [];
    const told = (bytes: Buffer): BoardPayload => ({
      digest: digestOf(bytes),
      onProgress: ({ step }) => void steps.push(step),
    });
    await stage(newer);
    await target.flash(...vouched(told(newer)), signal);
    await target.restore(told(newer), evidenceOfKept, signal);
    expect(steps).toEqual(['keeping', 'installing', 'restoring']);
    expect(steps.filter((step) => packageSteps.has(step))).toEqual(['installing', 'restoring']);
  });

  test('resumes after its own scripts ended the agent, and is installed once', async () => {
    await stage(newer);
    const ending = new AbortController();
    dpkg.onInstalled = () => ending.abort(new Error('SIGTERM'));
    await expect(target.flash(...vouched(payload(newer)), ending.signal)).rejects.toThrow('SIGTERM');
    target = newTarget();
    await target.flash(...vouched(payload(newer)), signal);
    await target.flash(...vouched(payload(newer)), signal);
    expect(dpkg.exchanges).toEqual(['1.0 → 1.1']);
  });

  test('is requested again if the package installer dropped the request at its end', async () => {
    dpkg.isLeaving = true;
    await installWell(newer);
    expect(dpkg.exchanges).toEqual(['1.0 → 1.1']);
  });

  test('that dpkg rejects is reported as such, and needs no restoring', async () => {
    await stage(newer);
    dpkg.refused.add(digestOf(newer));
    const failure = { code: 'package-refused', message: 'app: its script ended with 3' };
    await expect(target.flash(...vouched(payload(newer)), signal)).rejects.toMatchObject(failure);
    await target.restore(payload(newer), evidenceOfKept, signal);
    expect(dpkg.exchanges).toEqual(['1.0 → 1.0']);
  });

  test('that the guard has put back is not taken as installed at the next judgement', async () => {
    await installWell(newer);
    await putBackByGuard(join(root, 'app'), dpkg);
    await expect(target.flash(...vouched(payload(newer)), signal)).rejects.toMatchObject({ code: 'package-restored' });
  });

  test('that was replaced manually does not count as installed', async () => {
    await installWell(newer);
    dpkg.installed = newest;
    await expect(target.flash(...vouched(payload(newer)), signal)).rejects.toMatchObject({ code: 'package-changed' });
  });

  test('a second attempt after a failed one starts again', async () => {
    await stage(newer);
    dpkg.refused.add(digestOf(newer));
    await expect(target.flash(...vouched(payload(newer)), signal)).rejects.toMatchObject({ code: 'package-refused' });
    dpkg.refused.clear();
    await installWell(newer);
    expect(dpkg.exchanges).toEqual(['1.0 → 1.0', '1.0 → 1.1']);
  });
});

// Regression: the old failure was returned forever, so that the gateway took no update until files were removed by hand.
test('a restore that failed is requested again', async () => {
  await installWell(newer);
  dpkg.isLocked = true;
  const failure = { code: 'package-not-restored', message: 'app: dpkg is locked' };
  for (let attempt = 0; attempt < 2; attempt += 1)
    await expect(target.restore(payload(newer), evidenceOfKept, signal)).rejects.toMatchObject(failure);
  dpkg.isLocked = false;
  await target.restore(payload(newer), evidenceOfKept, signal);
  expect(dpkg.exchanges).toEqual(['1.0 → 1.1', '1.1 → 1.0']);
});

// Regression in the sweep: after the journal was lost, a half installed package was kept as the previous one.
test('an exchange without a result ends before the next package is staged', async () => {
  await installWell(newer);
  await rm(join(root, 'app/result'));
  await stage(newest);
  expect(dpkg.exchanges).toEqual(['1.0 → 1.1', '1.1 → 1.1']);
  expect(await readdir(join(root, 'app'))).not.toContain('request');
});

describe('what an update left', () => {
  const left = async (): Promise<unknown> => versionsFromUpdates(['app', 'other'], (name) => join(root, name));

  test('is remembered despite a manual installation over it, and follows the rollback', async () => {
    expect(await left()).toEqual({});
    await installWell(newer);
    dpkg.installed = newest;
    expect(await left()).toEqual({ app: '1.1' });
    dpkg.installed = newer;
    await target.restore(payload(newer), evidenceOfKept, signal);
    expect(await left()).toEqual({ app: '1.0' });
  });

  test('is nothing where it removed the package', async () => {
    dpkg.installed = undefined;
    await installWell(newer);
    await target.restore(payload(newer), evidenceOfKept, signal);
    expect(await left()).toEqual({});
  });
});

describe('a rollback', () => {
  test('is the package that was packed again, and then the kept one; restoring twice is restoring once', async () => {
    await installWell(newer);
    await installWell(newest);
    await target.restore(payload(newest), evidenceOfKept, signal);
    await target.restore(payload(newest), evidenceOfKept, signal);
    expect(dpkg.installed).toEqual(newer);
    expect(await target.keeps(digestOf(newer))).toEqual({ payload: true, before: true });
    await target.restore(payload(newer), evidenceOfKept, signal);
    expect(dpkg.exchanges).toEqual(['1.0 → 1.1', '1.1 → 1.2', '1.2 → 1.1', '1.1 → 1.0']);
  });

  // Regression, found by the sweep: the newer version was to stay by the journal, and then the package installer
  // found its request.
  test('is tried again after dpkg rejected it', async () => {
    await installWell(newer);
    dpkg.refused.add(digestOf(Buffer.concat([older, Buffer.from('packed again\n')])));
    for (let attempt = 0; attempt < 2; attempt += 1)
      await expect(target.restore(payload(newer), evidenceOfKept, signal)).rejects.toMatchObject({
        code: 'package-not-restored',
      });
    dpkg.refused.clear();
    await target.restore(payload(newer), evidenceOfKept, signal);
    expect(dpkg.version).toBe('1.0');
  });

  test('that a killed agent requested is dropped once the package is to stay', async () => {
    await installWell(newer);
    target = newTarget(async () => {
      throw new Error('killed');
    });
    await expect(target.restore(payload(newer), evidenceOfKept, signal)).rejects.toThrow('killed');
    target = newTarget();
    await target.flash(...vouched(payload(newer)), signal);
    await dpkg.ask(`watch app ${join(root, 'app')}`, 0, signal);
    expect(dpkg.version).toBe('1.1');
    expect(await target.keeps(digestOf(newer))).toEqual({ payload: true, before: true });
    await target.restore(payload(newer), evidenceOfKept, signal);
    expect(dpkg.version).toBe('1.0');
  });

  test('of a package that was not there is its removal', async () => {
    dpkg.installed = undefined;
    await installWell(newer);
    await target.restore(payload(newer), evidenceOfKept, signal);
    expect(dpkg.exchanges).toEqual(['nothing → 1.1', '1.1 → nothing']);
  });

  test('of a package that was never installed is nothing', async () => {
    await stage(newer);
    await target.restore(payload(newer), evidenceOfKept, signal);
    expect(dpkg.exchanges).toEqual([]);
  });

  test('what is of no use for it is not kept', async () => {
    for (const version of ['1.1', '1.2', '1.3', '1.4']) await installWell(deb(version));
    await stage(deb('1.5'));
    const debs = (await readdir(join(root, 'app'))).filter((name) => name.endsWith('.deb'));
    expect(debs.sort()).toEqual(['1.3', '1.4', '1.5'].map((it) => `${digestOf(deb(it)).slice(7)}.deb`).sort());
  });

  test('an interrupted transfer resumes after its stored part, or starts again', async () => {
    const opening = { payload: { fileName: 'app.deb', target: { name: 'app' } }, sizeBytes: undefined };
    const prefix = newer.subarray(0, 10);
    const resumeAt = { sizeBytes: 10, digest: digestOf(prefix) };
    {
      await using writer = await target.openFile({ ...opening, resumeAt: undefined }, signal);
      await writer.write(prefix);
      expect(await writer.checkpoint(signal)).toEqual(resumeAt);
      await writer.write(Buffer.from('lost'));
    }
    await using writer = await target.openFile({ ...opening, resumeAt }, signal);
    await writer.write(newer.subarray(10));
    expect(await writer.finish(signal)).toMatchObject({ digest: digestOf(newer) });
    await writeFile(join(root, 'app/incoming'), 'something else');
    await expect(target.openFile({ ...opening, resumeAt }, signal)).rejects.toMatchObject({ code: 'checkpoint-stale' });
  });
});
