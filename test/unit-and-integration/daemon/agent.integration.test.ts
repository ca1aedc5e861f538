import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';

import { artifact, image, releaseKey } from '../../fakes/machine/demo-firmware.ts';
import { FileGateway, stop } from '../../fakes/machine/file-gateway.ts';
import type { FileGatewayOptions } from '../../fakes/machine/file-gateway.ts';
import { bufferContent, versionsOf } from '../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../fakes/service/stand-in.ts';
import type { StandIn } from '../../fakes/service/stand-in.ts';
import { testInFull } from '../../full-run.ts';
import { untilTestEnds } from '../../until-test-ends.ts';
import { makeKeyPair } from '../firmware/artifact/keys.ts';

const stranger = makeKeyPair('ecdsa-p256', 'stranger.pem');

const OLD = image('healthy 0');
const whole = await artifact('tampered', image('healthy 2'));
const firmware = {
  v1: await artifact('v1', image('healthy 1')),
  v2: await artifact('v2', image('healthy 2')),
  bad: await artifact('bad', image('unhealthy')),
  dead: await artifact('dead', image('dead')),
  foreign: await artifact('foreign', image('healthy f'), stranger.privateKey),
  raw: image('healthy raw'),
  large: await artifact('large', image('healthy l', 3_000_000)),
  tampered: Buffer.from(whole).fill('X', whole.byteLength - 200_000, whole.byteLength - 199_990),
};

/** Typed, as vitest's own is not. */
const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);

let service: StandIn;
let gateway: FileGateway;

beforeEach(async () => {
  const versions = versionsOf(firmware);
  service = untilTestEnds(await startStandIn({ versions, currentVersionId: 'v1' }));
  gateway = untilTestEnds(await FileGateway.create(options()));
});

function options(more: Partial<FileGatewayOptions> = {}): FileGatewayOptions {
  return { serviceUrl: service.url, image: OLD, slotBytes: 2_000_000, trustedKey: releaseKey.publicPem, ...more };
}

/** The report of the last attempt at the service. */
function lastOutcome(): unknown {
  return service.world.things[0]?.properties.get('update_outcome');
}

async function updateToTheEnd(): Promise<void> {
  await gateway.run('--update-now');
  for (let boots = 0; gateway.rebootRequested && boots < 5; boots += 1) {
    gateway.boot();
    await gateway.run('--update-now');
  }
}

describe('agent --update-now, without a daemon', () => {
  test('stages, reboots into the trial, commits and switches', async () => {
    const first = await gateway.run('--update-now');
    expect(first).toMatchObject({ exitCode: 0, stdout: matching(/is rebooting into it/) });
    expect(gateway.boot()).toBe('B');
    expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
    expect(service.world.things[0]?.currentVersionId).toBe('v1');
    expect(lastOutcome()).toMatchObject({ outcome: 'installed', code: 'ok' });
    expect((await gateway.imageOf('B', 300_000)).equals(image('healthy 1'))).toBe(true);
  });

  test('reports how much of an image the slot already had', async () => {
    await writeFile(gateway.slots.B, Buffer.concat([image('healthy 1'), Buffer.alloc(1_700_000)]));
    const { stderr } = await gateway.run('--update-now');
    expect(stderr).toContain('staged: 0.3 MiB, 0.3 MiB of it unchanged in the slot');
  });

  testInFull('does nothing where the service names what is installed', async () => {
    await updateToTheEnd();
    const again = await gateway.json('--update-now');
    expect(again).toEqual({ kind: 'result', outcome: { kind: 'up-to-date', version: 'v1' } });
  });

  test('rolls back an unhealthy release, and blocks it afterwards', async () => {
    await updateToTheEnd();
    service.world.targetVersionId = 'bad';
    await updateToTheEnd();
    expect(gateway.booted).toBe('B');
    expect(lastOutcome()).toMatchObject({ outcome: 'rolled-back', code: 'unhealthy' });
    const held = await gateway.run('--update-now');
    expect(held).toMatchObject({ exitCode: 77, stdout: matching(/application does not answer/) });
  });

  testInFull('rolls back a release that never starts', async () => {
    service.world.targetVersionId = 'dead';
    await updateToTheEnd();
    expect(gateway.booted).toBe('A');
    expect(lastOutcome()).toMatchObject({ outcome: 'rolled-back', code: 'trial-fell-back' });
  });

  test('with --no-reboot waits for a manual reboot, which starts the trial', async () => {
    const first = await gateway.run('--update-now', '--no-reboot');
    expect(first.exitCode).toBe(0);
    expect(gateway.rebootRequested).toBe(false);
    expect(await gateway.run('reboot')).toMatchObject({ exitCode: 0 });
    expect(gateway.rebootRequested).toBe(true);
    expect(gateway.boot()).toBe('B');
    expect(await gateway.run('commit')).toMatchObject({ exitCode: 0 });
    expect(service.world.things[0]?.currentVersionId).toBe('v1');
  });
});

describe('exit codes and their one clear line', () => {
  /** Exit code and output in one line. Asserts that a failure caused no reboot and left slot A unchanged. */
  async function failing(...args: readonly string[]): Promise<string> {
    const { exitCode, stderr } = await gateway.run(...args);
    expect(stderr).not.toMatch(/\n\s+at /);
    expect(gateway.rebootRequested).toBe(false);
    expect((await gateway.imageOf('A', OLD.byteLength)).equals(OLD)).toBe(true);
    return `${exitCode}: ${stderr.replaceAll(/\s+/g, ' ')}`;
  }

  test('64: unknown command or option', async () => {
    expect(await failing('statsu')).toMatch(/^64: .*statsu.*status/);
  });

  test('69: the service cannot be reached', async () => {
    await service[Symbol.asyncDispose]();
    expect(await failing('check')).toMatch(/^69: .*refused/);
  });

  test('70: the service does not have the firmware', async () => {
    service.fail({ operation: 'firmware', fault: { kind: 'status', status: 404 } });
    expect(await failing('--update-now')).toMatch(/^70: .*404/);
    expect(lastOutcome()).toMatchObject({ outcome: 'failed', code: 'service-not-found' });
  });

  test('74: the image is larger than the slot, and nothing was written', async () => {
    service.world.targetVersionId = 'large';
    expect(await failing('--update-now')).toMatch(/^74: .*slot B .*holds 2000000 bytes, the image has 3000000/);
    expect((await gateway.imageOf('B', 16)).equals(Buffer.alloc(16))).toBe(true);
  });

  test('75: another agent is at work', async () => {
    await mkdir(join(gateway.directory, 'run'), { recursive: true });
    const holder = spawn('flock', [
      '-o',
      join(gateway.directory, 'run/agent.lock'),
      'sh',
      '-c',
      'echo held; read line',
    ]);
    onTestFinished(() => void holder.stdin.end());
    await once(holder.stdout, 'data');
    expect(await failing('--update-now')).toMatch(/^75: .*at work/);
  });

  test('76: the reply violates the interface', async () => {
    service.fail({ operation: 'targetVersion', times: 99, fault: { kind: 'body', text: '{"id":7}' } });
    expect(await failing('--update-now')).toMatch(/^76: .*target version.*id/);
  });

  test('76: the firmware text breaks off', async () => {
    service.fail({ operation: 'firmware', times: 3, fault: { kind: 'body', text: '"AAAA' } });
    expect(await failing('--update-now')).toMatch(/^76: .*byte 5/);
  });

  test.each([
    ['raw', /^77: .*(unsigned|signature|signed)/],
    ['foreign', /^77: .*(signature|signed|key)/],
    ['tampered', /^77: .*(digest|checksum|manifest)/],
  ])('77: %s firmware is refused, and reported as refused', async (version, line) => {
    service.world.targetVersionId = version;
    expect(await failing('--update-now')).toMatch(line);
    expect(lastOutcome()).toMatchObject({ outcome: 'refused' });
  });

  test('78: the configuration has an unknown key, with its line and the nearest known one', async () => {
    await gateway.configure(options({ updateToml: 'shedule = "* * * * *"' }));
    expect(await failing('check')).toMatch(/^78: .*config\.toml:\d+: .*shedule.*schedule/);
    expect(await failing('run')).toMatch(/^78: .*shedule/);
  });
});

describe('a file from a technician', () => {
  async function installFile(bytes: Buffer, ...more: readonly string[]): Promise<number | null> {
    const path = join(gateway.directory, 'from-usb.mender');
    await writeFile(path, bytes);
    const { exitCode } = await gateway.run('install', path, ...more);
    if (gateway.rebootRequested) {
      gateway.boot();
      await gateway.run('--update-now');
    }
    return exitCode;
  }

  test('is installed under the same rules, and recognised when the service names it', async () => {
    await updateToTheEnd();
    const two = await artifact('two', image('healthy 2'));
    service.world.targetVersionId = 'two';
    service.world.addVersion({ id: 'two', firmware: bufferContent(two) });
    expect(await installFile(two)).toBe(0);
    expect(gateway.imageBeginsWith(gateway.booted, 'healthy 2')).toBe(true);
    // v1 as a whole, and the header of the other one, which is recognized by its digest
    expect(service.callsOf('firmware')).toHaveLength(2);
    expect(service.world.things[0]?.currentVersionId).toBe('two');
  });

  testInFull('stays until the service names another version', async () => {
    await updateToTheEnd();
    expect(await installFile(firmware.v2)).toBe(0);
    expect(await gateway.json('--update-now')).toMatchObject({
      outcome: { kind: 'deferred', code: 'manual-override' },
    });
    expect(await gateway.run('rollback')).toMatchObject({ exitCode: 0 });
    expect(gateway.boot()).toBe('B');
    await gateway.run('--update-now');
    expect(gateway.imageBeginsWith(gateway.booted, 'healthy 1')).toBe(true);
  });

  test('rejects an unsigned one', async () => {
    expect(await installFile(firmware.raw)).toBe(77);
    expect(await installFile(firmware.tampered)).toBe(77);
  });

  test('that is not there is a clear line, and no attempt at an update', async () => {
    expect(await gateway.run('install', 'missing.mender')).toMatchObject({
      exitCode: 64,
      stderr: matching(
        /^agent: cannot read \/.*missing\.mender: no such file\s+\(file-unreadable\)\n\s+check the path: .*\n$/,
      ),
    });
    expect(await gateway.json('status')).not.toHaveProperty('lastOutcome');
  });

  test('may be named from where the technician stands, though the daemon stands elsewhere', async () => {
    await writeFile(join(gateway.directory, 'usb.mender'), firmware.tampered);
    await gateway.configure(options({ updateToml: 'follow = "none"' }));
    const looked = Promise.withResolvers<void>();
    await gateway.startDaemon(
      (line) => line.includes('Nothing to do: updates from the service are off') && looked.resolve(),
    );
    await looked.promise;
    const child = gateway.spawn(['install', 'usb.mender'], 'pipe', {}, gateway.directory);
    expect(await once(child, 'exit')).toEqual([77, null]);
    expect(service.calls.map(({ operation }) => operation)).toEqual(['activate', 'setProperty']);
  });
});

describe('values', () => {
  test('properties are read and set, datapoints are sent', async () => {
    expect(await gateway.run('property', 'set', 'colour', '{"r":1}')).toMatchObject({ exitCode: 0 });
    expect(await gateway.json('property', 'get', 'colour')).toMatchObject({ value: { r: 1 } });
    expect(await gateway.run('datapoint', 'send', 'temperature', '21.5')).toMatchObject({ exitCode: 0 });
    expect(service.world.things[0]?.datapoints.get('temperature')?.[0]).toMatchObject({ value: 21.5 });
  });

  test('a key that another activation dropped is replaced', async () => {
    await gateway.run('activate');
    service.world.activate('GW-0001');
    expect(await gateway.run('property', 'set', 'colour', '1')).toMatchObject({ exitCode: 0 });
    expect(service.world.things[0]?.activations).toBe(3);
  });
});

describe('agent run', () => {
  test('follows the service through trial and commit automatically', async () => {
    let daemon = await gateway.startDaemon();
    await gateway.rebootRequest(AbortSignal.timeout(60_000));
    expect(await stop(daemon)).toBe(0);
    gateway.boot();
    const switched = Promise.withResolvers<void>();
    daemon = await gateway.startDaemon((line) => line.includes('is installed') && switched.resolve());
    await switched.promise;
    expect(service.world.things[0]?.currentVersionId).toBe('v1');
    expect(await gateway.json('status')).toMatchObject({ daemon: true, installed: { versionId: 'v1' } });
    await stop(daemon);
  });

  test('does what a technician asks for, and shows the progress', async () => {
    service.world.targetVersionId = 'v1';
    const daemon = await gateway.startDaemon();
    await gateway.rebootRequest(AbortSignal.timeout(60_000));
    gateway.boot();
    await stop(daemon, 'SIGKILL');
    await gateway.startDaemon();
    service.world.targetVersionId = 'v2';
    const { stdout } = await gateway.run('--update-now', '--json');
    const kinds = stdout
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { kind: string }).kind);
    expect(kinds.at(-1)).toBe('result');
  });

  test('checks for updates on a technician’s request during recovery', async () => {
    const handler = join(gateway.directory, 'boot/handler');
    await rename(handler, `${handler}.real`);
    const hold = join(gateway.directory, 'hold');
    await writeFile(hold, '');
    const script = `#!/bin/sh\nwhile [ -e '${hold}' ]; do sleep 0.02; done\nexec '${handler}.real' "$@"\n`;
    await writeFile(handler, script, { mode: 0o755 });
    const asked = Promise.withResolvers<void>();
    await gateway.startDaemon((line) => line.includes('request on the control socket') && asked.resolve());
    const technician = gateway.run('--update-now');
    await asked.promise;
    await rm(hold);
    expect(await technician).toMatchObject({ exitCode: 0, stdout: matching(/is rebooting into it/) });
  });

  test('keeps running, and reports the reason, while the service is unavailable', async () => {
    await service[Symbol.asyncDispose]();
    const daemon = await gateway.startDaemon();
    const failed = await gateway.run('check');
    expect(failed.exitCode).toBe(69);
    const status = await gateway.json('status');
    expect(status).toMatchObject({ daemon: true, service: { lastError: matching(/refused/) } });
    expect(await stop(daemon)).toBe(0);
  });

  // Regression: "not reached since the start" after a reload.
  test('keeps the time of the last contact when it reads its configuration again', async () => {
    const told = Promise.withResolvers<string>();
    const daemon = await gateway.startDaemon((line) => line.includes('was read again') && told.resolve(line));
    expect((await gateway.run('check')).exitCode).toBe(0);
    await service[Symbol.asyncDispose]();
    await gateway.configure(options({ updateToml: 'max_attempts = 4' }));
    daemon.kill('SIGHUP');
    await told.promise;
    expect(await gateway.json('status')).toMatchObject({ service: { lastContactAt: matching(/^20/) } });
    expect(await stop(daemon)).toBe(0);
  });

  test('keeps the old configuration when the new one is invalid, and reports it', async () => {
    const told = Promise.withResolvers<string>();
    const daemon = await gateway.startDaemon((line) => line.includes('an older one') && told.resolve(line));
    await gateway.configure(options({ updateToml: 'schedule = 7' }));
    daemon.kill('SIGHUP');
    expect(await told.promise).toMatch(/config\.toml:\d+/);
    const status = await gateway.json('status');
    expect(JSON.stringify(status)).toMatch(/an older one/);
    // Regression: doctor accepted it, and the next start failed.
    const examined = await gateway.run('doctor');
    expect(examined.stdout).toMatch(/FAIL\s+configuration .*config\.toml:\d+/);
    await gateway.configure(options());
    expect((await gateway.run('doctor')).stdout).toMatch(/ok\s+configuration .*config\.toml can be used\n/);
    // Regression: an update was refused for a target that `config show` listed, without a reason.
    await gateway.configure(options({ updateToml: 'max_attempts = 4' }));
    const changed = /has changed since the daemon read it: systemctl reload thing-agent/;
    for (const words of ['doctor', 'status'])
      expect((await gateway.run(words)).stdout.replaceAll(/\s+/g, ' ')).toMatch(changed);
    expect(await stop(daemon)).toBe(0);
  });

  // Regression: without a daemon, only the errors of the file were printed.
  test('shows the status by the valid part of a configuration that cannot be used', async () => {
    await updateToTheEnd();
    await gateway.configure(options({ updateToml: 'schedule = 7' }));
    const status = await gateway.run('status', '--exit-code');
    expect(status.exitCode).toBe(2);
    expect(status.stdout.replaceAll(/\s+/g, ' ')).toMatch(
      /^State v1 is running\. The configuration file cannot be used.* Warning \S*config\.toml:\d+: update\.schedule/,
    );
    await gateway.configure(options({ serviceUrl: 'x' }));
    expect(await gateway.json('status')).toMatchObject({ running: { version: 'v1' }, idleCode: 'no-daemon' });
    expect((await gateway.run('history')).exitCode).toBe(78);
  });

  // Regression: a good package was put back and quarantined, since no agent came up with the file.
  test('begins nothing whose trial would start with a configuration that cannot be used', async () => {
    await updateToTheEnd();
    await gateway.startDaemon();
    await gateway.configure(options({ updateToml: 'schedule = 7' }));
    service.world.targetVersionId = 'dead';
    const held = await gateway.run('--update-now');
    expect(held).toMatchObject({ exitCode: 77, stdout: matching(/config\.toml:\d+.*config-unusable/s) });
    let status = await gateway.run('status', '--exit-code');
    while (status.stdout.includes('Busy')) status = await gateway.run('status', '--exit-code');
    expect(status.stdout.replaceAll(/\s+/g, ' ')).toMatch(
      /^State v1 is running\. The configuration file cannot be used/,
    );
    expect(status.exitCode).toBe(2);
    await gateway.configure(options());
    expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0, stdout: matching(/is rebooting into it/) });
  });

  test('refuses to run twice', async () => {
    await gateway.startDaemon();
    expect(await gateway.run('run')).toMatchObject({ exitCode: 75, stderr: matching(/at work/) });
  });
});
