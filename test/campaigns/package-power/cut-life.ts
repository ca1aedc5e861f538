import { copyFile, rm } from 'node:fs/promises';
import { join } from 'node:path';

import type { PackageMachine } from '../../promises/systemd/package/package-machine.ts';
import { drawCut, Flushes, survivors } from '../boots/disk/cut.ts';
import type { Cut } from '../boots/disk/cut.ts';
import { VirtualDisk } from '../boots/disk/virtual-disk.ts';
import { MountedDisk } from './mounted-disk.ts';
import type { PackageRecording } from './record.ts';
import { phases, untilAtRest } from './scene.ts';
import type { PhaseName } from './scene.ts';

export interface CutLife {
  readonly cut: Cut;
  readonly phase: PhaseName;
  /** What dpkg said of the package at the start after the cut. */
  readonly found: string;
  readonly violations: readonly string[];
}

const query = ['dpkg-query', '--show', '--showformat=${db:Status-Abbrev}${Version}', 'thing-agent'] as const;

/** The power fails there, the gateway starts again, and a person does what was interrupted. */
export async function liveOn(recording: PackageRecording, folder: string, seed: number): Promise<CutLife> {
  const cut = drawCut(recording, seed);
  const phase = recording.phases.find(({ end }) => cut.position < end)?.name ?? 'put-back';
  const disk = join(folder, 'cut.img');
  await layOut(recording, cut, disk);
  try {
    await using mounted = await MountedDisk.of(disk);
    await using machine = await recording.boot(mounted.root);
    const found = (await machine.exec(...query)).stdout.trim();
    const violations: string[] = [];
    const check = async (what: string, act: () => Promise<unknown>): Promise<void> => {
      try {
        await act();
      } catch (error) {
        violations.push(`${what}: ${String(error)}`);
      }
    };
    if (phases[phase].hasAgent) {
      await check('the agent runs by itself', async () => untilAtRest(machine));
      await check('it has what it had', async () => expectMemory(recording, machine));
    }
    await check('a person goes on', async () => goOn(machine, phase));
    await check('it has what it had at the end', async () => expectMemory(recording, machine));
    return { cut, phase, found, violations };
  } finally {
    await rm(disk, { force: true });
  }
}

async function layOut(recording: PackageRecording, cut: Cut, path: string): Promise<void> {
  const flushes = new Flushes(recording.events);
  await copyFile(recording.base, path);
  using disk = VirtualDisk.at(path);
  for (let index = 0; index < flushes.durableBefore(cut.event); index += 1) {
    const event = recording.events[index];
    if (event?.kind === 'write') disk.keep({ index, event });
  }
  for (const survivor of survivors(recording, flushes, cut)) disk.keep(survivor);
}

/** What was half done is configured, or is to be installed again, as dpkg says. */
async function goOn(machine: PackageMachine, phase: PhaseName): Promise<void> {
  const { exitCode, stderr } = await machine.exec('dpkg', '--configure', '-a');
  if (exitCode !== 0 && !stderr.includes('reinstall it before attempting configuration')) throw new Error(stderr);
  for (const args of phases[phase].again) await machine.tell('dpkg', ...args);
  const found = await machine.tell(...query);
  if (found !== `ii ${phases[phase].ends}`) throw new Error(`dpkg says ${found}`);
  const audit = await machine.tell('dpkg', '--audit');
  if (audit !== '') throw new Error(audit);
  await untilAtRest(machine);
}

/** Identity, journal and spool. */
async function expectMemory({ rig }: PackageRecording, machine: PackageMachine): Promise<void> {
  const [thing, ...others] = rig.service.world.things;
  if (thing?.activations !== 1 || others.length > 0) throw new Error('the gateway has activated again');
  const text = await machine.tell(
    'sh',
    '-c',
    'cat /var/lib/thing-agent/agent/identity.json 2>/dev/null || cat /var/lib/thing-agent/identity.json',
  );
  if (!text.includes(thing.thingId)) throw new Error('its identity is another one');
  const spool = await machine.tell('agent', 'spool', 'status', '--json');
  if (!/"pointsOnDisk": *1\b/.test(spool)) throw new Error(spool);
}
