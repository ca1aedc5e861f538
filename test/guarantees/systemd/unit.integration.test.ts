import { chmod, cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { fakeTree, newDirectory, run, systemdDirectory } from './installed-root.ts';

/** Limit for the exposure by `systemd-analyze security`, times ten. Less is better; plain root is 96. */
const MOST_EXPOSURE = 25;

/** The same of the trial timer's unit. */
const MOST_EXPOSURE_OF_GUARD = 12;

const unitFile = join(systemdDirectory, 'thing-agent.service');
let directory: string;

beforeEach(async () => {
  directory = await newDirectory();
});

afterEach(async () => {
  await rm(directory, { recursive: true });
});

describe('thing-agent.service', () => {
  test('is understood by systemd without a complaint', async () => {
    const root = join(directory, 'root');
    await mkdir(join(root, 'bin'), { recursive: true });
    await cp('/usr/lib/systemd/system', join(root, 'usr/lib/systemd/system'), {
      recursive: true,
      verbatimSymlinks: true,
    });
    await writeFile(join(root, 'bin/sh'), '');
    await chmod(join(root, 'bin/sh'), 0o755);
    await run(join(systemdDirectory, 'install'), '--root', root, '--tree', await fakeTree(directory, 'one'));
    const units = ['thing-agent.service', 'thing-agent-trial.timer', 'thing-agent-trial.service'];
    expect(await run('systemd-analyze', 'verify', '--root', root, ...units)).toEqual({ exitCode: 0, output: '' });
  });

  test.each([
    ['thing-agent.service', MOST_EXPOSURE],
    ['thing-agent-trial.service', MOST_EXPOSURE_OF_GUARD],
  ])('%s is no more exposed than %i tenths', async (unit, most) => {
    const exposure = ['security', '--offline=true', '--no-pager', `--threshold=${most}`];
    const { exitCode, output } = await run('systemd-analyze', ...exposure, join(systemdDirectory, unit));
    expect(output).toMatch(/Overall exposure level for thing-agent[a-z-]*.service: \d\.\d (OK|SAFE)/);
    expect(exitCode).toBe(0);
  });

  test('never stops to start again', async () => {
    const unit = await readFile(unitFile, 'utf8');
    expect(unit).toMatch(/^Restart=always$/m);
    expect(unit).toMatch(/^StartLimitIntervalSec=0$/m);
    expect(unit).not.toMatch(/^RestartPreventExitStatus=/m);
  });

  test('starts where its state cannot be mounted, which a StateDirectory= would forbid, and after the mount where it can', async () => {
    const unit = await readFile(unitFile, 'utf8');
    expect(unit).not.toMatch(/^(StateDirectory|RequiresMountsFor|Requires|BindsTo)=/m);
    expect(unit).toMatch(/^After=var-lib-thing\\x2dagent\.mount$/m);
    expect(unit).toMatch(/^After=boot\.mount boot-default\.mount$/m);
    expect(unit).toMatch(/^ReadWritePaths=-\/var\/lib\/thing-agent$/m);
  });

  test('has a trial timer that elapses at the time in the configuration check', async () => {
    expect(await readFile(join(systemdDirectory, 'thing-agent-trial.timer'), 'utf8')).toMatch(/^OnBootSec=30min$/m);
    expect(await readFile(unitFile, 'utf8')).toMatch(/^Also=thing-agent-trial.timer thing-agent-trial.service$/m);
  });

  test('starts its trial timer, which needs nothing of it', async () => {
    expect(await readFile(unitFile, 'utf8')).toMatch(/^Wants=thing-agent-trial.timer$/m);
    const timer = await readFile(join(systemdDirectory, 'thing-agent-trial.timer'), 'utf8');
    expect(timer).toMatch(/^WantedBy=sysinit.target$/m);
    expect(timer).not.toMatch(/^(PartOf|BindsTo|Requires|Requisite|StopWhenUnneeded)=/m);
  });

  test('gives a reason for every right that it keeps', async () => {
    const lines = (await readFile(unitFile, 'utf8')).split('\n');
    const rights = /^(CapabilityBoundingSet|ReadWritePaths|ProtectHome|DeviceAllow|NotifyAccess|User)=/;
    const unexplained = lines.filter((line, index) => {
      const above = lines
        .slice(0, index)
        .findLast((candidate) => !rights.test(candidate) && !candidate.startsWith('DevicePolicy='));
      return rights.test(line) && above?.startsWith('#') !== true;
    });
    expect(unexplained).toEqual([]);
  });
});

describe('the other installed files', () => {
  test('is understood by the tools that read it', async () => {
    const root = join(directory, 'root');
    await mkdir(root);
    await run(join(systemdDirectory, 'install'), '--root', root, '--tree', await fakeTree(directory, 'one'));
    const users = await run('systemd-sysusers', '--dry-run', `--root=${root}`, 'thing-agent.conf');
    expect(users).toMatchObject({ exitCode: 0, output: expect.stringContaining("group 'thing-agent'") as string });
    const group = 'thing-agent:x:990:\nthing-operators:x:991:\nroot:x:0:\n';
    await writeFile(join(root, 'etc/group'), group);
    await writeFile(join(root, 'etc/passwd'), 'root:x:0:0::/root:/bin/sh\n');
    expect(await run('systemd-tmpfiles', '--create', `--root=${root}`, 'thing-agent.conf')).toEqual({
      exitCode: 0,
      output: '',
    });
  });
});
