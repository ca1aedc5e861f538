import { execFileSync } from 'node:child_process';
import { chmod, rm, writeFile } from 'node:fs/promises';

import { describe, expect, test } from 'vitest';

import type { RunProgram } from '../../../../src/slots/bootloaders/boot-programs.ts';
import { checkBootStorage } from '../../../../src/slots/bootloaders/create-bootloader.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import { runProgram } from '../../../../src/system/processes/child-process.ts';
import { bootloaderContract, evidence, evidenceOfA } from './bootloader-contract.ts';
import { UbootRig } from './uboot-rig.ts';

const signal = new AbortController().signal;

bootloaderContract('U-Boot', () => UbootRig.open(2));

describe('the U-Boot environment', () => {
  test('with a pipe as settings delays no reader', async () => {
    await using rig = await UbootRig.open(2);
    const fwEnvConfig = rig.folder.file('pipe');
    execFileSync('mkfifo', [fwEnvConfig]);
    expect(await checkBootStorage({ ...rig.settings, fwEnvConfig }, { run: runProgram }, signal)).toEqual({});
  });

  test('is set by one run of fw_setenv for each change', async () => {
    await using rig = await UbootRig.open(2);
    const runs: (readonly string[])[] = [];
    const counting: RunProgram = async (command, options, given) => {
      if (command[0] === 'fw_setenv' && command.includes('-s')) runs.push(command);
      return rig.run(command, options, given);
    };
    const bootloader = await rig.folder.bootloader(rig.settings, { run: counting });

    await bootloader.tryOnce('B', evidence, signal);
    expect([await rig.get('BOOT_ORDER'), await rig.get('BOOT_A_LEFT'), await rig.get('BOOT_B_LEFT')]).toEqual([
      'B A',
      '3',
      '1',
    ]);
    await bootloader.commit('B', signal);
    expect([await rig.get('BOOT_ORDER'), await rig.get('BOOT_A_LEFT'), await rig.get('BOOT_B_LEFT')]).toEqual([
      'B A',
      '3',
      '3',
    ]);
    await bootloader.markUnbootable('A', signal);
    expect([await rig.get('BOOT_ORDER'), await rig.get('BOOT_A_LEFT'), await rig.get('BOOT_B_LEFT')]).toEqual([
      'B',
      '0',
      '3',
    ]);
    expect(runs).toHaveLength(3);
  });

  test('keeps the variables of others, and is not written when nothing changes', async () => {
    await using rig = await UbootRig.open(2);
    await rig.bootloader.commit('A', signal);
    const before = await rig.bytes();
    await rig.bootloader.commit('A', signal);
    expect((await rig.bytes()).equals(before)).toBe(true);
    expect(await rig.get('board')).toBe('test');
  });

  test('torn at any place while one copy is written, it is the old one or the new one', async () => {
    await using rig = await UbootRig.open(2);
    await rig.bootloader.tryOnce('B', evidence, signal);
    await rig.boot();
    const before = await rig.bytes();
    await rig.bootloader.commit('B', signal);
    const after = await rig.bytes();

    const changed = [...after.keys()].filter((at) => after[at] !== before[at]);
    const [first = 0] = changed;
    const last = changed.at(-1) ?? 0;
    expect(Math.floor(first / 0x2000)).toBe(Math.floor(last / 0x2000));
    const seen = new Set<string>();
    for (const at of [...Array.from({ length: last - first + 1 }, (_, offset) => first + offset), last + 1]) {
      await writeFile(rig.file, Buffer.concat([after.subarray(0, at), before.subarray(at)]));
      seen.add(await rig.get('BOOT_B_LEFT'));
    }
    expect([...seen]).toEqual(['0', '3']);
    expect(await rig.boot()).toBe('B');
  });

  test('with every copy damaged is an error, even where the tools have a default to offer', async () => {
    await using rig = await UbootRig.open(2);
    await writeFile(rig.file, Buffer.alloc(0x4000, 0x5a));
    const expected = { code: 'boot-environment-unreadable', exit: 'disk' };
    await expect(rig.bootloader.inspect(signal)).rejects.toMatchObject(expected);

    const withDefault: RunProgram = (command, options, given) =>
      runProgram(
        command[0] === 'fw_printenv' ? [...command, '-f', rig.folder.file('factory')] : command,
        options,
        given,
      );
    const bootloader = await rig.folder.bootloader(rig.settings, { run: withDefault });
    await expect(bootloader.inspect(signal)).rejects.toMatchObject(expected);
    await expect(bootloader.commit('A', signal)).rejects.toMatchObject(expected);
  });

  test.each([
    ['BOOT_ORDER=A A', 'BOOT_ORDER=A A, expected an order such as "A B"'],
    ['BOOT_ORDER=', 'BOOT_ORDER is not set'],
    ['BOOT_A_LEFT=', 'BOOT_A_LEFT is not set'],
    ['BOOT_B_LEFT=many', 'BOOT_B_LEFT=many, expected a hexadecimal number of boot attempts'],
    ['BOOT_B_LEFT=-1', 'BOOT_B_LEFT=-1, expected a hexadecimal number of boot attempts'],
  ])('with %s is an error that says so, and is left as it is', async (assignment, message) => {
    await using rig = await UbootRig.open(2);
    await rig.set(assignment);
    const before = await rig.bytes();
    await expect(rig.bootloader.commit('A', signal)).rejects.toMatchObject({
      code: 'boot-environment-invalid',
      message: `U-Boot environment: ${message}`,
    });
    expect((await rig.bytes()).equals(before)).toBe(true);
  });

  test('may use other names and counters', async () => {
    await using rig = await UbootRig.open(2);
    await rig.set('order=system1 system0', 'tries-system0=a', 'tries-system1=1f');
    const names = { A: 'system0', B: 'system1' };
    const settings = { ...rig.settings, orderVariable: 'order', leftVariable: 'tries-{slot}', attempts: 31, names };
    const bootloader = await rig.folder.bootloader(settings, { run: rig.run });
    expect((await bootloader.inspect(signal)).slots.A.detail).toBe('fallback, 10 boot attempts left');
    await bootloader.tryOnce('A', evidenceOfA, signal);
    expect([await rig.get('order'), await rig.get('tries-system0'), await rig.get('tries-system1')]).toEqual([
      'system0 system1',
      '1',
      '1f',
    ]);
  });

  test('is written in the syntax of U-Boot’s own fw_setenv where that is installed', async () => {
    await using rig = await UbootRig.open(2);
    const own = rig.folder.file('fw_setenv');
    await writeFile(own, ownFwSetenv);
    await chmod(own, 0o755);
    const withOwn: RunProgram = ([tool, ...args], options, given) =>
      runProgram([tool === 'fw_setenv' ? own : tool, ...args], options, given);
    const bootloader = await rig.folder.bootloader(rig.settings, { run: withOwn });
    await bootloader.tryOnce('B', evidence, signal);
    expect(await rig.boot()).toBe('B');
    await bootloader.canary(signal);
    expect(await rig.get('thing_agent_canary')).toBe('1');
  });

  test('that lost a write is not believed', async () => {
    await using rig = await UbootRig.open(2);
    const deaf: RunProgram = ([tool, ...args], options, given) =>
      runProgram(tool === 'fw_setenv' && args.includes('-s') ? ['true'] : [tool, ...args], options, given);
    const bootloader = await rig.folder.bootloader(rig.settings, { run: deaf });
    const expected = { code: 'boot-write-not-confirmed', remedy: 'give-up' };
    await expect(bootloader.tryOnce('B', evidence, signal)).rejects.toMatchObject(expected);
    await expect(bootloader.canary(signal)).rejects.toMatchObject(expected);
  });

  test('without its tools, its device or its configuration file is an error that names them', async () => {
    await using rig = await UbootRig.open(2);
    const missing: RunProgram = (_command, options, given) => runProgram(['no-such-fw-tool'], options, given);
    await expect((await rig.folder.bootloader(rig.settings, { run: missing })).inspect(signal)).rejects.toMatchObject({
      code: 'boot-environment-unreadable',
      message: expect.stringContaining('no-such-fw-tool') as unknown,
      advice: expect.stringContaining('libubootenv-tool') as unknown,
    });
    await rm(rig.file);
    await expect(rig.bootloader.inspect(signal)).rejects.toMatchObject({ code: 'boot-environment-unreadable' });
    await rm(rig.folder.file('fw_env.config'));
    await expect(rig.bootloader.inspect(signal)).rejects.toMatchObject({
      code: 'boot-environment-unreadable',
      message: expect.stringContaining('fw_env.config') as unknown,
    });
  });

  test('whose lock another program holds is an error that names the lock', async () => {
    await using rig = await UbootRig.open(2);
    const waiting: RunProgram = async (_command, options, given) =>
      runProgram(['sleep', '60'], { ...options, timeoutMs: 1 }, given);
    await expect((await rig.folder.bootloader(rig.settings, { run: waiting })).inspect(signal)).rejects.toMatchObject({
      code: 'boot-environment-unreadable',
      advice: expect.stringContaining('/var/lock/fw_printenv.lock') as unknown,
    });
  });

  test('that cannot be written is an error with the tool’s last word', async () => {
    await using rig = await UbootRig.open(2);
    const failing: RunProgram = ([tool, ...args], options, given) =>
      tool === 'fw_setenv' && args.includes('-s')
        ? runProgram(['sh', '-c', 'echo first >&2; echo "Error storing the env" >&2; exit 234'], options, given)
        : runProgram([tool, ...args], options, given);
    await expect((await rig.folder.bootloader(rig.settings, { run: failing })).canary(signal)).rejects.toMatchObject({
      code: 'boot-environment-unwritable',
      message: expect.stringMatching(/^fw_setenv .*: exit code 234: Error storing the env$/) as unknown,
    });
  });

  test('completes a write after its caller aborts', async () => {
    await using rig = await UbootRig.open(2);
    const caller = new AbortController();
    const interrupted: RunProgram = async (command, options, given) => {
      if (command[0] === 'fw_setenv' && command.includes('-s')) caller.abort(new Error('given up'));
      return runProgram(command, options, given);
    };
    const bootloader = await rig.folder.bootloader(rig.settings, { run: interrupted });
    await expect(bootloader.tryOnce('B', evidence, caller.signal)).rejects.toThrow('given up');
    expect(await rig.get('BOOT_ORDER')).toBe('B A');
  });

  test.each([
    [1, 1],
    [2, 0],
  ] as const)('with %i copies warns %i times, however often it is written', async (copies, warnings) => {
    await using rig = await UbootRig.open(copies);
    const said: string[] = [];
    const log = { ...silentLog, warn: (_fields: object, message: string) => void said.push(message) };
    const bootloader = await rig.folder.bootloader(rig.settings, { run: rig.run, log });
    await bootloader.canary(signal);
    await bootloader.tryOnce('B', evidence, signal);
    expect(said).toHaveLength(warnings);
    expect(await rig.boot()).toBe('B');
    expect(await rig.boot()).toBe('A');
  });

  test('is changed by one caller at a time', async () => {
    await using rig = await UbootRig.open(2);
    await Promise.all([
      rig.bootloader.tryOnce('B', evidence, signal),
      rig.bootloader.markUnbootable('B', signal),
      rig.bootloader.commit('A', signal),
    ]);
    expect(await rig.get('BOOT_ORDER')).toBe('A');
  });
});

/** As U-Boot’s tools/env: no option -V, and script lines of name and value with a blank between. */
const ownFwSetenv = `#!/bin/sh
for argument; do last=$argument; done
if [ "$last" = -V ]; then echo "Usage: fw_setenv [OPTIONS]... [VARIABLE]..." >&2; exit 1; fi
if [ "$3" != -s ]; then exec fw_setenv "$@"; fi
sed 's/[ \\t][ \\t]*/=/' | fw_setenv "$@"
`;
