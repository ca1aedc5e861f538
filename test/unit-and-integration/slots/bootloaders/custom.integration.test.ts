import { chmod, readFile, rename, writeFile } from 'node:fs/promises';

import { describe, expect, test } from 'vitest';

import { runProgram } from '../../../../src/system/processes/child-process.ts';
import type { Bootloader } from '../../../../src/update/ports.ts';
import { bootloaderContract, evidence } from './bootloader-contract.ts';
import { CustomRig } from './custom-rig.ts';

const signal = new AbortController().signal;

bootloaderContract('a custom handler', () => CustomRig.open());

describe('a custom handler', () => {
  test('gets the calls that the page for integrators promises', async () => {
    await using rig = await CustomRig.open();
    await rig.bootloader.markUnbootable('B', signal);
    await rig.bootloader.tryOnce('B', evidence, signal);
    await rig.boot();
    await rig.bootloader.commit('B', signal);
    await rig.bootloader.markUnbootable('A', signal);
    expect(rig.calls).toEqual(['set-state B bad', 'set-primary B', 'set-state B good', 'set-state A bad']);
  });

  test('is called for each value once before a change and once after it, and for exit reasons only if it supports them', async () => {
    await using rig = await CustomRig.open();
    const calls: string[] = [];
    const bootloader = await rig.folder.bootloader(rig.settings, {
      run: async (command, options, ending) => {
        calls.push(command.slice(1).join(' '));
        return runProgram(command, options, ending);
      },
    });
    const questions = ['get-primary', 'get-state A', 'get-state B'];
    await bootloader.commit('A', signal);
    expect(calls.splice(0)).toEqual([...questions, 'set-state A good', ...questions]);
    await bootloader.inspect(signal);
    expect(calls).toEqual([...questions, 'get-last-word B']);
  });

  test('whose primary slot does not follow is reported, and the commit comes last', async () => {
    await using rig = await CustomRig.open();
    const file = rig.folder.file('primary');
    await writeFile(file, 'A');
    const script = `case $1 in get-primary) cat ${file};; get-state) echo good;; set-primary) echo $2 >${file};; esac`;
    await withHandler(rig, script);
    await rig.bootloader.commit('B', signal);
    expect(rig.calls).toEqual(['set-state B good', 'set-primary B', 'set-state B good']);
    await withHandler(rig, script.replace('echo good', 'if [ $2 = B ]; then echo bad; else echo good; fi'));
    await rig.bootloader.markUnbootable('B', signal);
    expect(rig.calls.slice(3)).toEqual(['set-state B bad', 'set-primary A']);
  });

  test('is never called for a change in the test write', async () => {
    await using rig = await CustomRig.open();
    await rig.bootloader.canary(signal);
    expect(rig.calls).toEqual([]);
  });

  test('may call the slots by other names', async () => {
    await using rig = await CustomRig.open();
    const bootloader = await withHandler(
      rig,
      'case $1 in get-primary|get-current) echo system1;; get-state) echo good;; esac',
      {
        A: 'system0',
        B: 'system1',
      },
    );
    rig.folder.mounted = 'B';
    expect(await bootloader.bootedSlot(signal)).toBe('B');
    expect((await bootloader.inspect(signal)).primary).toBe('B');
  });

  test('without get-current leaves it to what is mounted', async () => {
    await using rig = await CustomRig.open();
    const bootloader = await withHandler(rig, 'exit 64');
    rig.folder.mounted = 'B';
    expect(await bootloader.bootedSlot(signal)).toBe('B');
    rig.folder.mounted = undefined;
    await expect(bootloader.bootedSlot(signal)).rejects.toMatchObject({ code: 'booted-slot-unknown' });
  });

  test('that contradicts what is mounted stops the agent', async () => {
    await using rig = await CustomRig.open();
    rig.folder.mounted = 'B';
    await expect(rig.bootloader.bootedSlot(signal)).rejects.toMatchObject({
      code: 'booted-slot-contradiction',
      message: 'the handler reports slot A as running, the mounted root file system reports slot B',
    });
  });

  test.each([
    ['fails', 'echo "one" >&2; echo "no medium" >&2; exit 3', /handler get-primary: exit code 3: no medium$/],
    ['names no known slot', 'echo C', /get-primary prints "C", which is neither A nor B$/],
    [
      'talks about a slot',
      'case $1 in get-primary) echo A;; *) echo fine;; esac',
      /get-state A prints "fine" instead of good or bad$/,
    ],
    ['talks without end', 'yes', /more than 262144 bytes of output$/],
    ['is killed', 'kill -9 $$', /get-primary: ended by a signal$/],
  ])('that %s is an error that names it', async (_what, script, message) => {
    await using rig = await CustomRig.open();
    const bootloader = await withHandler(rig, script);
    await expect(bootloader.inspect(signal)).rejects.toMatchObject({
      code: 'handler-failed',
      message: expect.stringMatching(message) as unknown,
    });
  });

  // Regression: a handler below /srv worked manually, and never for the daemon, whose unit is restricted.
  test('without permission to write gets the remedy', async () => {
    await using rig = await CustomRig.open();
    const bootloader = await withHandler(rig, 'echo "cannot create saved.new: Read-only file system" >&2; exit 2');
    await expect(bootloader.inspect(signal)).rejects.toMatchObject({
      code: 'handler-failed',
      advice: expect.stringContaining('ReadWritePaths') as unknown,
    });
  });

  // Regression: "put thing.slot=A on the kernel command line" of a handler that was copied without its mode.
  test.each([
    { what: 'may not be executed', mode: 0o644, says: /handler may not be executed; without it/, mend: /^chmod 755 / },
    { what: 'may be changed by all', mode: 0o777, says: /not trusted: .*fix it with: chmod /, mend: /as root/ },
    {
      what: 'has no interpreter',
      mode: 0o755,
      says: /handler is missing, or the interpreter in its first/,
      mend: /head -n 1 \S+$/,
    },
  ])('that $what is the cause where nobody else knows which slot runs', async ({ mode, says, mend }) => {
    await using rig = await CustomRig.open();
    rig.folder.mounted = undefined;
    await writeFile(rig.settings.handler, '#!/no/such/shell\n');
    await chmod(rig.settings.handler, mode);
    const bootloader = await rig.folder.bootloader(rig.settings);
    await expect(bootloader.bootedSlot(signal)).rejects.toMatchObject({
      code: 'handler-failed',
      message: expect.stringMatching(says) as unknown,
      advice: expect.stringMatching(mend) as unknown,
    });
    rig.folder.mounted = 'B';
    expect(await bootloader.bootedSlot(signal)).toBe('B');
  });

  test('that is missing is an error that names it', async () => {
    await using rig = await CustomRig.open();
    const bootloader = await rig.folder.bootloader({ ...rig.settings, handler: '/no/such/handler' });
    await expect(bootloader.canary(signal)).rejects.toMatchObject({
      code: 'handler-failed',
      message: expect.stringContaining('/no/such/handler') as unknown,
    });
  });

  test('keeps why a slot was left, until that is armed again, where it knows how', async () => {
    await using rig = await CustomRig.open();
    const word = rig.folder.file('word');
    const rest = `${rig.settings.handler}-rest`;
    await rename(rig.settings.handler, rest);
    const verbs = `set-last-word) echo "$2:$3" >${word};; get-last-word) grep "^$2:" ${word} || true;;`;
    const bootloader = await withHandler(rig, `case $1 in ${verbs} *) exec ${rest} "$@";; esac`);
    const wordOfB = async (): Promise<unknown> => (await bootloader.inspect(signal)).slots.B.lastWord;
    await bootloader.tryOnce('B', evidence, signal);
    expect(await wordOfB()).toBeUndefined();
    await bootloader.markUnbootable('B', signal, 'state-unavailable');
    expect(await wordOfB()).toBe('state-unavailable');
    await bootloader.tryOnce('B', evidence, signal);
    expect(await readFile(word, 'utf8')).toBe('B:none\n');
    expect(await wordOfB()).toBeUndefined();
  });

  test.each(['echo bad', 'echo "usage: $0"', 'exit 1', 'echo B:', 'echo "B:not a code"'])(
    'that does not know of last words (%s) is not misunderstood',
    async (said) => {
      await using rig = await CustomRig.open();
      const rest = `${rig.settings.handler}-rest`;
      await rename(rig.settings.handler, rest);
      const bootloader = await withHandler(rig, `case $1 in *-last-word) ${said};; *) exec ${rest} "$@";; esac`);
      await bootloader.markUnbootable('B', signal, 'state-unavailable');
      expect((await bootloader.inspect(signal)).slots.B).toMatchObject({ bootable: false, lastWord: undefined });
    },
  );

  test('that arms a trial where get-primary does not see it is not believed', async () => {
    await using rig = await CustomRig.open();
    const bootloader = await withHandler(rig, 'case $1 in get-primary) echo A;; get-state) echo good;; esac');
    await expect(bootloader.tryOnce('B', evidence, signal)).rejects.toMatchObject({ code: 'boot-write-not-confirmed' });
  });

  test('with a bad primary slot is called for the good one, and one without any is an error', async () => {
    await using rig = await CustomRig.open();
    const oneGood = await withHandler(
      rig,
      'case $1 in get-state) if [ $2 = B ]; then echo good; else echo bad; fi;; esac',
    );
    expect((await oneGood.inspect(signal)).primary).toBe('B');
    const none = await withHandler(rig, 'case $1 in get-state) echo bad;; esac');
    await expect(none.inspect(signal)).rejects.toMatchObject({ code: 'boot-environment-invalid' });
  });
});

async function withHandler(rig: CustomRig, script: string, names = rig.settings.names): Promise<Bootloader> {
  await writeFile(rig.settings.handler, `#!/bin/sh\n${script}\n`);
  await chmod(rig.settings.handler, 0o755);
  return rig.folder.bootloader({ ...rig.settings, names });
}
