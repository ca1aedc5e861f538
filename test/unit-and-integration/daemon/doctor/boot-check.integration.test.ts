import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';

import { beforeEach, describe, expect, test } from 'vitest';

import { checkOnGateway } from '../../../../src/daemon/doctor/gateway-check.ts';
import { runProgram } from '../../../../src/system/processes/child-process.ts';
import { agentProgram } from '../../../fakes/machine/built-agent.ts';
import { FileGateway } from '../../../fakes/machine/file-gateway.ts';
import type { Finished } from '../../../fakes/machine/file-gateway.ts';
import { untilTestEnds } from '../../../until-test-ends.ts';
import { LoopDevice, run, TemporaryMount } from '../../slots/loop-device.ts';

let gateway: FileGateway;

beforeEach(async () => {
  const serviceUrl = 'http://127.0.0.1:9'; // never requested
  gateway = untilTestEnds(
    await FileGateway.create({ serviceUrl, image: Buffer.from('a factory'), slotBytes: 400_000 }),
  );
  gateway.boot();
});

function inGateway(name: string): string {
  return join(gateway.directory, name);
}

/** Returns the output of `agent config check` for a gateway with this bootloader, in one line. */
async function check(bootloader?: string): Promise<Finished> {
  const config = await readFile(gateway.configFile, 'utf8');
  const changed =
    bootloader === undefined ? config : config.replace(/^bootloader = .*$/m, `bootloader = ${bootloader}`);
  await writeFile(gateway.configFile, changed);
  const end = await gateway.run('config', 'check');
  return { ...end, stdout: end.stdout.replaceAll(/\s+/g, ' ') };
}

/** Typed, as vitest's own is not. */
const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);

describe('agent config check of a handler', () => {
  test('that answers is content, and changes nothing', async () => {
    const before = await readFile(inGateway('boot/environment'));
    expect(await check()).toMatchObject({ exitCode: 0, stdout: matching(/is valid/) });
    expect(await readFile(inGateway('boot/environment'))).toEqual(before);
  });

  test('reports a bootloader without slots at its line of the configuration', async () => {
    await writeFile(inGateway('boot/handler'), '#!/bin/sh\necho somewhere\n');
    const end = await check();
    const told = /config\.toml:\d+: targets\.gateway\.bootloader: .*get-primary prints "somewhere"/;
    expect(end).toMatchObject({ exitCode: 78, stdout: matching(told) });
    expect(end.stdout.replaceAll(/\s+/g, ' ')).toContain(`agent --config ${gateway.configFile} config check`);
  });
});

// Regression: "may not be executed", and "run the handler by hand", of a gateway where all was well for root.
test('agent config check of another user finds no error in what only root may see', async () => {
  if (process.getuid?.() !== 0) return; // only root can test a configuration of another user
  await writeFile(inGateway('boot/handler'), '#!/bin/sh\necho "not for you" >&2\nexit 1\n');
  const asUser = async (uid: number) => checkOnGateway(gateway.configFile, {}, new AbortController().signal, uid);
  await expect(asUser(0)).rejects.toThrow(/get-primary/);
  expect((await asUser(65_534)).warnings).toContain(
    'the boot environment was not asked, since it is root’s: sudo agent config check',
  );
  await chmod(inGateway('boot/handler'), 0o600);
  expect((await asUser(65_534)).warnings).toContainEqual(
    matching(
      /bootloader\.handler: .*handler may not be executed by this user; perhaps by root: sudo agent config check/,
    ),
  );
});

describe('agent config check of a GRUB environment', () => {
  async function environmentOn(mount: TemporaryMount, ...variables: readonly string[]): Promise<string> {
    const file = join(mount.folder, 'grubenv');
    await run('grub-editenv', file, 'create');
    await run('grub-editenv', file, 'set', ...variables);
    return `{ kind = "grub", environment = "${file}" }`;
  }

  const whole = ['ORDER=A', 'A_OK=1', 'A_TRY=0', 'B_OK=0', 'B_TRY=0'] as const;

  async function ext4(): Promise<LoopDevice> {
    const device = untilTestEnds(await LoopDevice.attach(8 * 1024 * 1024));
    await run('mkfs.ext4', '-q', device.path);
    return device;
  }

  test('is content with one that names the slots, on ext4', async () => {
    const device = await ext4();
    let settings = '';
    {
      await using first = await TemporaryMount.mount(device.path);
      settings = await environmentOn(first, ...whole);
      settings = settings.replace(first.folder, 'THERE');
    }
    const mount = untilTestEnds(await TemporaryMount.mount(device.path));
    expect(await check(settings.replace('THERE', mount.folder))).toMatchObject({ exitCode: 0 });
  });

  test('names what it does not say of the slots, and where GRUB cannot count, each in a line', async () => {
    const memory = untilTestEnds(await TemporaryMount.mount('-t', 'tmpfs', 'tmpfs'));
    const { exitCode, stdout } = await check(await environmentOn(memory, 'mine=kept'));
    expect(exitCode).toBe(78);
    expect(stdout.match(/config\.toml:\d+: targets\.gateway\.bootloader: /g)).toHaveLength(2);
    expect(stdout).toMatch(/A_OK is not set/);
    expect(stdout).toMatch(/is on tmpfs, which GRUB cannot write/);
  });

  test('rejects a read-only mount', async () => {
    const device = await ext4();
    {
      await using first = await TemporaryMount.mount(device.path);
      await environmentOn(first, ...whole);
    }
    const mount = untilTestEnds(await TemporaryMount.mount('-o', 'ro', device.path));
    const settings = `{ kind = "grub", environment = "${join(mount.folder, 'grubenv')}" }`;
    expect(await check(settings)).toMatchObject({ exitCode: 78, stdout: matching(/is mounted read-only/) });
  });
});

describe('agent config check of a U-Boot environment', () => {
  const ENVIRONMENT_BYTES = 0x2000;

  async function environment(copies: number, ...variables: readonly string[]): Promise<string> {
    const [file, tools] = [inGateway('environment'), inGateway('fw_env.config')];
    const lines = ['0x0000', '0x2000'].slice(0, copies).map((offset) => `${file} ${offset} 0x2000\n`);
    await writeFile(tools, lines.join(''));
    await writeFile(file, Buffer.alloc(copies * ENVIRONMENT_BYTES, 0xff));
    await writeFile(inGateway('factory'), variables.map((variable) => `${variable}\n`).join(''));
    await run('fw_setenv', '-c', tools, '-f', inGateway('factory'), 'board', 'test');
    return `{ kind = "uboot", fw_env_config = "${tools}" }`;
  }

  const whole = ['BOOT_ORDER=A B', 'BOOT_A_LEFT=3', 'BOOT_B_LEFT=3'] as const;

  test('is content with two copies', async () => {
    const end = await check(await environment(2, ...whole));
    expect(end).toMatchObject({ exitCode: 0, stdout: matching(/is valid/) });
    expect(end.stdout).not.toContain('copy');
  });

  test('warns of a single copy', async () => {
    const end = await check(await environment(1, ...whole));
    expect(end).toMatchObject({ exitCode: 0, stdout: matching(/one copy of the environment/) });
  });

  test('names the missing counter', async () => {
    const end = await check(await environment(2, 'BOOT_ORDER=A B', 'BOOT_A_LEFT=3'));
    expect(end).toMatchObject({ exitCode: 78, stdout: matching(/BOOT_B_LEFT is not set/) });
  });
});

// Regression: a folder that the unit of the daemon may not write; doctor called the slot writable, and each order failed.
test('agent doctor reports a slot as writable only if it is, and makes no claim about a handler', async () => {
  const script = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && exec "$2" --config "$3" doctor';
  const typed = ['--mount', 'sh', '-c', script, 'sh', gateway.slots.B, agentProgram(), gateway.configFile];
  const { stdout } = await runProgram(['unshare', ...typed], { timeoutMs: 60_000 }, AbortSignal.timeout(60_000));
  const said = stdout.replaceAll(/\s+/g, ' ');
  expect(said).toMatch(/FAIL staging slot slot B .*open it for writing/);
  expect(said).toContain('its handler responds; only an update shows whether it can write');
});
