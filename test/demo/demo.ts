import type { ChildProcess } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import process from 'node:process';

import { buildArtifact } from '../rooms/firmware/artifact/build-artifact.ts';
import { makeKeyPair } from '../rooms/firmware/artifact/keys.ts';
import type { KeyPair } from '../rooms/firmware/artifact/keys.ts';
import { FileGateway, stop } from '../stand-ins/machine/file-gateway.ts';
import { bufferContent, randomContent } from '../stand-ins/service/firmware-content.ts';
import type { FirmwareContent } from '../stand-ins/service/firmware-content.ts';
import { startStandIn } from '../stand-ins/service/stand-in.ts';
import type { StandIn } from '../stand-ins/service/stand-in.ts';
import { Meter } from './meter.ts';
import { narrator } from './narrator.ts';
import { serviceAway, temperatures } from './service-away.ts';
import { Thermometer } from './thermometer.ts';

const MIB = 1024 * 1024;
const IMAGE_BYTES = 48 * MIB;
const DEADLINE_MS = 120_000;
const deadline = AbortSignal.timeout(DEADLINE_MS);
const calls = new EventEmitter();

/**
 * The two jobs, on an embedded stand-in of the service: a good firmware, then a bad one; and measurements through the
 * service's absence. Exits with 0 if all went well.
 */
async function demo(): Promise<void> {
  const keys = makeKeyPair('ecdsa-p256', 'release.pem');
  await using meter = await Meter.plugIn((why) =>
    narrator.tell(`No microcontroller: simavr is not installed (${why}).`),
  );
  using thermometer = new Thermometer();
  await using service = await startStandIn({
    versions: [
      { id: 'v1', name: '1.0.0', firmware: await firmware('1.0.0', 'healthy', keys) },
      { id: 'v2', name: '2.0.0', firmware: await firmware('2.0.0', 'healthy', keys, meter?.newProgram) },
      { id: 'v3', name: '3.0.0', firmware: await firmware('3.0.0', 'unhealthy', keys) },
    ],
    onCall: ({ operation, method, path, status }) => {
      if (operation !== 'postDatapoints') narrator.service(`${method} ${path} → ${status}`);
      calls.emit('call');
    },
  });
  await using gateway = await FileGateway.create({
    serviceUrl: service.url,
    image: image('0.9.0', 'healthy').read(0, IMAGE_BYTES),
    slotBytes: 64 * MIB,
    trustedKey: keys.publicPem,
    updateToml: 'schedule = "0 3 * * *"',
    extraToml: `${thermometer.toml}\n${meter?.toml ?? ''}`,
  });

  narrator.title('A new gateway: slots A and B (files), one trusted key, and a service that never heard of it.');
  narrator.tell(
    `Its configuration: ${gateway.configFile}. The daemon starts, activates and installs what the service names.`,
  );
  let daemon = await gateway.startDaemon(narrator.log);
  daemon = await rebootWhenAsked(gateway, daemon);
  await committed(service, 'v1');

  narrator.title('The owner selects version 2.0.0. A technician does not wait for the schedule.');
  service.world.targetVersionId = 'v2';
  service.fail({ operation: 'firmware', fault: { kind: 'drip', bytes: 64 * 1024, everyMs: 2 } }); // a line of some 20 MiB/s
  if (meter !== undefined) narrator.tell(`It is for a meter on a serial port, too, which says: ${await meter.says()}.`);
  await technician(gateway, '--update-now');
  daemon = await rebootWhenAsked(gateway, daemon);
  if (meter !== undefined) daemon = await cutWhileFlashing(gateway, meter, daemon);
  await committed(service, 'v2');
  if (meter !== undefined) narrator.tell(`The meter says: ${await meter.says()}.`);
  await technician(gateway, 'status');

  narrator.title('Version 3.0.0 is signed and complete, but its application does not work.');
  service.world.targetVersionId = 'v3';
  await technician(gateway, '--update-now');
  daemon = await rebootWhenAsked(gateway, daemon);
  narrator.tell('Its health gate has 3 seconds; then the agent goes back.');
  daemon = await rebootWhenAsked(gateway, daemon);
  await outcome(service, 'rolled-back');
  await technician(gateway, 'status');

  narrator.title('All the while a sensor has measured the room. Now the service goes away.');
  const away = { service, gateway, technician: async (...args: string[]) => technician(gateway, ...args) };
  await waitingFor('the measurements of the time without a service', serviceAway(away, deadline));

  await stop(daemon);
  const { currentVersionId } = service.world.things[0] ?? {};
  narrator.title(
    `Slot ${gateway.booted} runs, the service knows version ${currentVersionId}: both went as they should. ` +
      `It has ${temperatures(service).length} temperatures.`,
  );
  if (currentVersionId !== 'v2' || !gateway.imageBeginsWith(gateway.booted, 'healthy 2.0.0'))
    throw new Error('wrong end');
}

/** An image whose first words say what it is and whether its application will work. */
function image(version: string, health: string): FirmwareContent {
  const noise = randomContent(IMAGE_BYTES, version.charCodeAt(0));
  const bytes = noise.read(0, IMAGE_BYTES);
  bytes.write(`${health} ${version}\n`, 0, 'latin1');
  return bufferContent(bytes);
}

async function firmware(version: string, health: string, keys: KeyPair, meter?: Buffer): Promise<FirmwareContent> {
  const content = image(version, health).read(0, IMAGE_BYTES);
  const system = { name: 'rootfs.ext4', content };
  const options = { name: version, devices: ['demo-gateway'], key: keys.privateKey };
  if (meter === undefined) return bufferContent(await buildArtifact({ ...options, files: [system] }));
  const files = [system, { name: 'meter.hex', content: meter }];
  const targets = { 'rootfs.ext4': 'gateway', 'meter.hex': 'meter' };
  return bufferContent(await buildArtifact({ ...options, files, targets }));
}

/** Gateway and meter lose their power while the meter is flashed on the trial of the new slot. */
async function cutWhileFlashing(gateway: FileGateway, meter: Meter, daemon: ChildProcess): Promise<ChildProcess> {
  await waitingFor('the flashing of the meter', meter.cutWhileFlashed(deadline));
  await stop(daemon, 'SIGKILL');
  narrator.tell('── power cut ── the meter holds half a program, and the gateway was on trial ──');
  await meter.power();
  narrator.tell(`The meter says ${await meter.says()}: half a program never runs.`);
  narrator.tell(`── power is back ── the bootloader chooses slot ${gateway.boot()} ──`);
  return rebootWhenAsked(gateway, await gateway.startDaemon(narrator.log));
}

async function technician(gateway: FileGateway, ...args: readonly string[]): Promise<void> {
  await narrator.command(`agent ${args.join(' ')}`, async () => {
    await once(gateway.spawn(args, 'inherit'), 'exit');
  });
}

async function rebootWhenAsked(gateway: FileGateway, daemon: ChildProcess): Promise<ChildProcess> {
  const died = once(daemon, 'exit').then(([code]) => {
    throw new Error(`the daemon ended with ${String(code)}`);
  });
  await waitingFor('a reboot that the daemon asks for', Promise.race([gateway.rebootRequest(deadline), died]));
  died.catch(() => {}); // killed by the reboot
  await stop(daemon, 'SIGKILL');
  narrator.tell(`── reboot ── the bootloader chooses slot ${gateway.boot()} ──`);
  return gateway.startDaemon(narrator.log);
}

async function committed(service: StandIn, versionId: string): Promise<void> {
  const isKnown = (): boolean =>
    service.world.things[0]?.currentVersionId === versionId && reported(service) !== undefined;
  await waitingFor(`the commit of version ${versionId} at the service`, until(isKnown));
}

async function outcome(service: StandIn, wanted: string): Promise<void> {
  await waitingFor(
    `the outcome ${wanted} at the service`,
    until(() => reported(service)?.outcome === wanted),
  );
}

function reported(service: StandIn): { readonly outcome?: string } | undefined {
  return service.world.things[0]?.properties.get('update_outcome') as { readonly outcome?: string } | undefined;
}

/** Looks again after each call that the service answers. */
async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await once(calls, 'call', { signal: deadline });
}

/** The one deadline is over all waits: it says which of them it ended. */
async function waitingFor<T>(what: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!deadline.aborted) throw error;
    throw new Error(`${DEADLINE_MS / 1_000} s were over before ${what} came`, { cause: error });
  }
}

try {
  await demo();
} catch (error) {
  narrator.title(`The demo failed: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 70;
}
