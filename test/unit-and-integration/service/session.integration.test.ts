import { mkdtemp, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { FileIdentityStore } from '../../../src/service/identity.ts';
import { ServiceSession } from '../../../src/service/session.ts';
import { ManualClock } from '../../fakes/clock.ts';
import { randomContent } from '../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../fakes/service/stand-in.ts';
import type { StandIn } from '../../fakes/service/stand-in.ts';
import { folderUntilTestEnds } from '../../until-test-ends.ts';
import { readAll, restRig } from './rest/rest-rig.ts';
import type { RestRig } from './rest/rest-rig.ts';

const { signal } = new AbortController();

let service: StandIn;
let rig: RestRig;
let directory: string;

beforeEach(async () => {
  service = await startStandIn({ versions: [{ id: '1', firmware: randomContent(2_000_000) }] });
  rig = restRig(service.url);
  directory = folderUntilTestEnds();
});

afterEach(async () => {
  await rig[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
});

function session(stateDirectory = directory): ServiceSession {
  const { transport, log } = rig;
  return new ServiceSession({
    transport,
    identities: new FileIdentityStore(stateDirectory, 'GW-1', log),
    serialNumber: 'GW-1',
    clock: new ManualClock(),
    random: () => 0,
    log,
  });
}

describe('a session with a real service and a real disk', () => {
  test('keeps its identity where only its user can read it', async () => {
    await session().targetVersion(signal);
    const path = join(directory, 'identity.json');
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect(JSON.parse(await readFile(path, 'utf8'))).toMatchObject({ serialNumber: 'GW-1', thingId: 'thing-1' });
    expect(await readdir(directory)).toEqual(['identity.json']);
  });

  test('heals after a crash between the service’s answer and the disk', async () => {
    await session().targetVersion(signal);
    // the service has given a newer key, which never reached the disk
    service.world.activate('GW-1');
    expect(await session().targetVersion(signal)).toMatchObject({ id: '1' });
    expect(service.callsOf('activate')).toHaveLength(2);
  });

  test('heals when the reply to the activation itself is lost', async () => {
    service.fail({ operation: 'activate', fault: { kind: 'reset' } });
    expect(await session().targetVersion(signal)).toMatchObject({ id: '1' });
    expect(service.world.things).toHaveLength(1);
  });

  test('requests the time in one attempt, and gets it from a refusal, too', async () => {
    service.fail({ operation: 'currentVersion', fault: { kind: 'status', status: 404 }, times: 1 });
    service.fail({ operation: 'currentVersion', fault: { kind: 'reset' }, times: 1 });
    const made = session();
    const hadReply = [];
    for (let request = 0; request < 3; request += 1) hadReply.push(await made.requestTime(signal));
    expect(hadReply).toEqual([true, false, true]);
    expect(service.callsOf('currentVersion')).toHaveLength(3);
  });

  test('sets a damaged identity aside and activates', async () => {
    await writeFile(join(directory, 'identity.json'), '{"serialNumber":');
    expect(await session().thing(signal)).toMatchObject({ thingId: 'thing-1' });
    expect((await readdir(directory)).sort()).toEqual(['identity.json', 'identity.json.damaged']);
  });

  test('and another device with the same serial number alternate, until both report it', async () => {
    const other = await mkdtemp(join(tmpdir(), 'identity-'));
    const devices = [session(), session(other)];
    const codes: unknown[] = [];
    for (let round = 0; round < 6; round += 1) {
      for (const device of devices) {
        await device.setProperty('p', round, signal).catch((error: unknown) => codes.push(error));
      }
    }
    await rm(other, { recursive: true });
    expect(codes.length).toBeGreaterThan(0);
    for (const code of codes) expect(code).toMatchObject({ code: 'serial-number-shared', exit: 'refused' });
    expect(service.callsOf('activate').length).toBeLessThanOrEqual(8);
  });

  test('reads firmware completely although its key is dropped on the way', async () => {
    service.behave({ keyRequired: 'everything' });
    service.fail({ operation: 'firmware', fault: { kind: 'truncate', afterBytes: 1_000_000 } });
    service.fail({ operation: 'firmware', fault: { kind: 'drop-key' } });
    await using transfer = await session().firmware('1').open(undefined, signal);
    expect((await readAll(transfer.chunks)).byteLength).toBe(transfer.totalBytes);
    expect(service.callsOf('firmware').map(({ status }) => status)).toEqual([200, 401, 206]);
  });

  test('never tells its key in a log or an error', async () => {
    const one = session();
    await one.targetVersion(signal);
    service.world.activate('GW-1');
    await one.setProperty('p', 1, signal);
    service.fail({ operation: 'targetVersion', fault: { kind: 'status', status: 500 }, times: 'always' });
    const error = await one.targetVersion(signal).catch((failure: unknown) => failure);
    const told = JSON.stringify([rig.log.lines, error, String(error), one.contact]);
    const keys = service.calls.map(({ headers }) => headers['x-apikey']).filter((key) => key !== undefined);
    expect(keys.length).toBeGreaterThan(1);
    for (const key of keys) expect(told).not.toContain(key);
  });
});
