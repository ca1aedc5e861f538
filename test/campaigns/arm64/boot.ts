import { join } from 'node:path';

import { buildDeb } from '../../../systemd/make/deb.ts';
import type { GatewayMachine } from '../../fakes/machine/booting/gateway-machine.ts';
import { qemuGateway } from '../../fakes/machine/booting/qemu-gateway.ts';
import { fileContent } from '../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../fakes/service/stand-in.ts';
import type { StandIn } from '../../fakes/service/stand-in.ts';
import { Waiting } from '../boots/waiting.ts';
import { makeGateway } from './gateway-image.ts';
import type { GatewayParts } from './gateway-image.ts';

/** Limit for each step. With other load on the machine, a start of an emulated machine takes minutes. */
const STEP_MS = 45 * 60_000;

/** Time follows executed instructions (125 million are a second), so that load on the host shortens no deadline. */
const COUNTED = ['-icount', 'shift=3,sleep=on'];

export interface BootOptions {
  /** For everything that is made. */
  readonly folder: string;
  /** The package; made, if undefined. */
  readonly deb: string | undefined;
  readonly onLine: BootLine | undefined;
}

type BootLine = (line: string) => void;

/** The whole image for arm64: made, started, and updated end to end, in an emulated machine. */
export async function bootOnce({ folder, deb: made, onLine }: BootOptions): Promise<number> {
  const deb =
    made ?? (await step('the package is made', async () => buildDeb({ out: join(folder, 'deb'), arch: 'arm64' })));
  await using parts = await step(
    'Debian, the package by apt, agent setup, systemctl enable; slots A and B, GRUB, a release',
    async () => makeGateway(deb, folder),
  );
  return await playUpdate(parts, onLine);
}

async function playUpdate({ disk, efi, firmware }: GatewayParts, onLine: BootLine | undefined): Promise<number> {
  const events = new Waiting();
  await using service = await startStandIn({ versions: [{ id: 'v1' }], onCall: () => events.wake() });
  service.world.addVersion({ id: 'v2', firmware: fileContent(firmware) });
  await using gateway = qemuGateway({
    architecture: 'arm64',
    more: COUNTED,
    disk,
    efi,
    servicePort: Number(new URL(service.url).port),
    onLine: (line) => {
      onLine?.(line);
      events.wake();
    },
  });
  const isWell = await playSteps({ service, gateway, events });
  await gateway.powerOff();
  const slots = gateway.boots.join(', ');
  console.log(
    `started: slots ${slots}; the emulated machine: ${Math.round(gateway.processorSeconds)} s of a processor`,
  );
  const isOk = isWell && slots === 'A, B';
  console.log(isOk ? 'ok' : 'FAILED');
  return isOk ? 0 : 1;
}

interface Play {
  readonly service: StandIn;
  readonly gateway: GatewayMachine;
  readonly events: Waiting;
}

/** True if agent doctor and agent status reported no problem at any step. */
async function playSteps(play: Play): Promise<boolean> {
  const { service, gateway } = play;
  gateway.powerOn();
  await awaitSlot(play, 'slot A is started by GRUB', 'A');
  await awaited(play, 'the agent activates the gateway', () => service.world.things[0]?.activations !== undefined);
  const verdicts = [await examined(play, 'v1')];
  service.world.targetVersionId = 'v2';
  await awaitSlot(play, 'v2 is on trial in slot B', 'B');
  const isSwitched = (): boolean => service.world.things[0]?.currentVersionId === 'v2';
  await awaited(play, 'it is committed, and the service knows', isSwitched);
  verdicts.push(await examined(play, 'v2'));
  return verdicts.every(Boolean);
}

/** Expects the next start from this slot. */
async function awaitSlot(play: Play, says: string, slot: string): Promise<void> {
  const { boots } = play.gateway;
  const count = boots.length;
  await awaited(play, says, () => boots.length > count);
  if (boots.at(-1) !== slot) throw new Error(`slot ${boots.at(-1)} was started, not ${slot}`);
}

async function awaited({ gateway, events }: Play, says: string, isSo: () => boolean): Promise<void> {
  const since = gateway.console.mark;
  const hasEnded = (): boolean => since().some((line) => /^\*\*\* the (?:machine|gateway) /.test(line));
  await step(says, async () => {
    const isInTime = await events.until(() => isSo() || hasEnded(), STEP_MS);
    if (isSo()) return;
    const why = isInTime ? 'the machine ended' : `not within ${STEP_MS / 60_000} minutes`;
    throw new Error(`${why}:\n${gateway.console.lines.slice(-40).join('\n')}`);
  });
}

/** True if doctor reports no problem. Prints the output of both. */
async function examined({ gateway: { console: screen } }: Play, what: string): Promise<boolean> {
  return step(`agent doctor and agent status, ${what}`, async () => {
    const since = screen.mark;
    const doctor = await screen.until(/\*\*\* agent doctor ended with \d+/, STEP_MS);
    const status = await screen.until(/\*\*\* agent status ended with \d+/, STEP_MS);
    const said = since().filter((line) => !/^\[ *[\d.]+\]/.test(line));
    console.log(said.map((line) => `    ${line}`).join('\n'));
    return [doctor, status].every((line) => line.endsWith(' 0'));
  });
}

/** Prints a line for the step, with its duration. */
async function step<T>(says: string, take: () => Promise<T>): Promise<T> {
  const startMs = performance.now();
  const result = await take();
  console.log(`${says}: ${Math.round((performance.now() - startMs) / 1000)} s`);
  return result;
}
