import { rm } from 'node:fs/promises';
import { join } from 'node:path';

import type { DebianMachine } from '../../guarantees/systemd/package/package-machine.ts';
import { drawCut, Flushes, survivors } from '../boots/disk/cut.ts';
import type { Cut } from '../boots/disk/cut.ts';
import { VirtualDisk } from '../boots/disk/virtual-disk.ts';
import { copyDisk } from './mounted-disk.ts';
import type { PackageRecording } from './record.ts';
import { phases, untilAtRest } from './scene.ts';
import type { PhaseName } from './scene.ts';

export interface CutLife {
  readonly cut: Cut;
  readonly phase: PhaseName;
  /** The package's state in dpkg at the start after the interruption. */
  readonly found: string;
  readonly violations: readonly string[];
}

const query = ['dpkg-query', '--show', '--showformat=${db:Status-Abbrev}${Version}', 'thing-agent'] as const;

/** Interrupts the power there, starts the gateway again, and repeats the interrupted command. */
export async function liveOn(recording: PackageRecording, folder: string, seed: number): Promise<CutLife> {
  const cut = drawCut(recording, seed);
  const phase = recording.phases.find(({ end }) => cut.position < end)?.name ?? 'installed';
  const disk = join(folder, 'cut.img');
  await layOut(recording, cut, disk);
  // another cut before this one may have made one too many
  const activations = recording.rig.service.world.things[0]?.activations;
  try {
    await using machine = await recording.boot(disk);
    const found = (await machine.exec(...query)).stdout.trim();
    const violations: string[] = [];
    const check = async (what: string, act: () => Promise<unknown>): Promise<void> => {
      try {
        await act();
      } catch (error) {
        violations.push(`${what}: ${String(error)}`);
      }
    };
    const { hasAgent, hasMemory } = phases[phase];
    const hasWhatItHad = async (): Promise<void> => {
      if (hasMemory) await expectMemory(recording, machine, activations);
    };
    // also where dpkg knows of nothing that was to be removed
    if (hasAgent || (hasMemory && found.startsWith('ii'))) {
      await check('the agent runs by itself', async () => untilAtRest(machine, recording.machines.restSeconds));
      await check('it has what it had', hasWhatItHad);
    }
    await check('a person goes on', async () => goOn(recording, machine, phase));
    await check('it has what it had at the end', hasWhatItHad);
    return { cut, phase, found, violations };
  } finally {
    await rm(disk, { force: true });
  }
}

async function layOut(recording: PackageRecording, cut: Cut, path: string): Promise<void> {
  const flushes = new Flushes(recording.events);
  await copyDisk(recording.base, path);
  using disk = VirtualDisk.at(path);
  for (let index = 0; index < flushes.durableBefore(cut.event); index += 1) {
    const event = recording.events[index];
    if (event?.kind === 'write') disk.keep({ index, event });
  }
  for (const survivor of survivors(recording, flushes, cut)) disk.keep(survivor);
}

/** Configures or reinstalls the half-installed package, as dpkg advises. */
async function goOn(recording: PackageRecording, machine: DebianMachine, phase: PhaseName): Promise<void> {
  const { exitCode, stderr } = await machine.exec('dpkg', '--configure', '-a');
  if (exitCode !== 0 && !stderr.includes('reinstall it before attempting configuration')) throw new Error(stderr);
  for (const args of phases[phase].again) await machine.tell('dpkg', ...args);
  const { ends, hasMemory } = phases[phase];
  const found = (await machine.exec(...query)).stdout.trim();
  if (found !== (ends === undefined ? '' : `ii ${ends}`)) throw new Error(`dpkg says ${found || 'nothing'}`);
  const audit = await machine.tell('dpkg', '--audit');
  if (audit !== '') throw new Error(audit);
  if (hasMemory) await untilAtRest(machine, recording.machines.restSeconds);
  else await expectNewcomer(machine, ends);
}

/** Expects that a package without setup does not run, and that a purge left no file. */
async function expectNewcomer(machine: DebianMachine, version: string | undefined): Promise<void> {
  const left = await machine.tell('sh', '-c', 'ls -A /var/lib/thing-agent 2>/dev/null || true');
  if (version === undefined && left !== '') throw new Error(`/var/lib/thing-agent has ${left}`);
  const { stdout } = await machine.exec('systemctl', 'is-active', 'thing-agent.service');
  if (stdout.trim() !== 'inactive') throw new Error(`the agent is ${stdout.trim()}`);
  if (version !== undefined) await machine.tell('agent', '--version');
}

/** Identity, journal and spool. */
async function expectMemory(
  { rig }: PackageRecording,
  machine: DebianMachine,
  activations: number | undefined,
): Promise<void> {
  const [thing, ...others] = rig.service.world.things;
  if (thing === undefined || thing.activations !== activations || others.length > 0)
    throw new Error('the gateway has activated again');
  const text = await machine.tell(
    'sh',
    '-c',
    'cat /var/lib/thing-agent/agent/identity.json 2>/dev/null || cat /var/lib/thing-agent/identity.json',
  );
  if (!text.includes(thing.thingId)) throw new Error('its identity is another one');
  const spool = await machine.tell('agent', 'queue', 'status', '--json');
  if (!/"pointsOnDisk": *1\b/.test(spool)) throw new Error(spool);
}
