import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';

import { beforeEach, describe, expect, test } from 'vitest';

import { LinuxMachine } from '../../../../src/system/processes/machine.ts';
import { folderUntilTestEnds } from '../../../until-test-ends.ts';

let directory: string;
const signal = AbortSignal.timeout(60_000);

beforeEach(() => {
  directory = folderUntilTestEnds();
});

describe('LinuxMachine', () => {
  test('knows which boot this is', async () => {
    const machine = new LinuxMachine({ rebootCommand: ['true'] });
    expect(await machine.bootId()).toMatch(/^[0-9a-f-]{36}$/);
    expect(await machine.bootId()).toBe(await machine.bootId());
  });

  test('reports that it is unknown', async () => {
    const machine = new LinuxMachine({ rebootCommand: ['true'], bootIdFile: join(directory, 'gone') });
    await expect(machine.bootId()).rejects.toMatchObject({ code: 'boot-id-unknown' });
  });

  test('hands the argument to the command as one word', async () => {
    const told = join(directory, 'told');
    const machine = new LinuxMachine({
      rebootCommand: ['sh', '-c', `printf '%s|' "$@" > ${told}`, 'sh', '{argument}'],
    });
    await machine.reboot('0 tryboot', signal);
    expect(await readFile(told, 'utf8')).toBe('0 tryboot|');
  });

  /**
   * Regression under systemd: the reboot stopped the agent before `systemctl reboot` had ended, which looked like a
   * failure.
   */
  test('lets the command end although the reboot has begun to end this process', async () => {
    const [begun, go] = [join(directory, 'begun'), join(directory, 'go')];
    const script = `: > ${begun}; while ! [ -e ${go} ]; do sleep 0.01; done`;
    const stopping = new AbortController();
    const rebooting = new LinuxMachine({ rebootCommand: ['sh', '-c', script] }).reboot(undefined, stopping.signal);
    while (!existsSync(begun)) await setImmediate();
    stopping.abort(new Error('SIGTERM'));
    await writeFile(go, '');
    await expect(rebooting).resolves.toBeUndefined();
  });

  test('starts no reboot when this process ends already', async () => {
    const machine = new LinuxMachine({ rebootCommand: ['sh', '-c', `: > ${directory}/begun`] });
    await expect(machine.reboot(undefined, AbortSignal.abort(new Error('SIGTERM')))).rejects.toThrow('SIGTERM');
    expect(existsSync(join(directory, 'begun'))).toBe(false);
  });

  test('reports why the command failed', async () => {
    const machine = new LinuxMachine({ rebootCommand: ['sh', '-c', 'echo "no permission" >&2; exit 4'] });
    await expect(machine.reboot(undefined, signal)).rejects.toMatchObject({
      code: 'reboot-failed',
      remedy: 'retry',
      message: expect.stringContaining('exit code 4, no permission') as string,
      advice: expect.stringMatching(
        /systemd-inhibit --list.* the agent tries again after 1, 2, 4 and at most 60 min/,
      ) as string,
    });
  });
});
