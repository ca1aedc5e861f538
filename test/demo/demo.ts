import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import process from 'node:process';
import { parseArgs } from 'node:util';

import { FileGateway, stop } from '../fakes/machine/file-gateway.ts';
import { bufferContent, randomContent } from '../fakes/service/firmware-content.ts';
import type { FirmwareContent } from '../fakes/service/firmware-content.ts';
import { startStandIn } from '../fakes/service/stand-in.ts';
import type { StandIn } from '../fakes/service/stand-in.ts';
import { buildArtifact } from '../unit-and-integration/firmware/artifact/build-artifact.ts';
import { makeKeyPair } from '../unit-and-integration/firmware/artifact/keys.ts';
import type { KeyPair } from '../unit-and-integration/firmware/artifact/keys.ts';
import { Meter } from './meter.ts';
import { narrator } from './narrator.ts';
import { serviceAway, temperatures } from './service-away.ts';
import { Left, Stage } from './stage.ts';
import { Thermometer } from './thermometer.ts';

const MIB = 1024 * 1024;
const IMAGE_BYTES = 48 * MIB;

const usage = `usage: npm run demo -- [--keep]

The two jobs of the agent, with a simulator of the service and a gateway in a temporary directory: a good and a bad release,
with a power loss between; and measurements while the service is away. About a minute.

  --keep        leave gateway and service running at the end, to play with, until Ctrl-C
  --help        show this
`;

/** Exits with 0 on success. An interrupted demo removes all its files. */
async function demo(keep: boolean, stage: Stage): Promise<void> {
  const keys = makeKeyPair('ecdsa-p256', 'release.pem');
  await using meter = await Meter.plugIn((why) => narrator.tell(`This gateway has no board: ${why}`));
  using thermometer = new Thermometer();
  await using service = await startStandIn({
    versions: [
      { id: 'v1', name: '1.0.0', firmware: await firmware('1.0.0', 'healthy', keys) },
      { id: 'v2', name: '2.0.0', firmware: await firmware('2.0.0', 'healthy', keys, meter?.newProgram) },
      { id: 'v3', name: '3.0.0', firmware: await firmware('3.0.0', 'unhealthy', keys) },
    ],
    onCall: ({ operation, method, path, status }) => {
      if (operation !== 'postDatapoints') narrator.service(`${method} ${path} → ${status}`);
      stage.called();
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
  const actors = { stage, service, gateway };

  narrator.title('A new gateway: slots A and B (files), one trusted key, and a service that does not know it yet.');
  narrator.tell(
    `Its configuration: ${gateway.configFile}. The daemon starts, activates the gateway and installs the assigned version.`,
  );
  let daemon = await gateway.startDaemon(narrator.log);
  daemon = await rebootWhenAsked(actors, daemon);
  await settled(actors, 'installed');

  narrator.title('The service assigns version 2.0.0. An operator installs it without waiting for the schedule.');
  service.world.targetVersionId = 'v2';
  service.fail({ operation: 'firmware', fault: { kind: 'drip', bytes: 64 * 1024, everyMs: 2 } }); // a line of some 20 MiB/s
  if (meter !== undefined)
    narrator.tell(`It also contains a program for the meter on a serial port, which now sends: ${await meter.says()}.`);
  await technician(gateway, '--update-now');
  daemon = await rebootWhenAsked(actors, daemon);
  if (meter !== undefined) daemon = await cutWhileFlashing(actors, meter, daemon);
  await settled(actors, 'installed');
  if (meter !== undefined) narrator.tell(`The meter sends: ${await meter.says()}.`);
  await technician(gateway, 'status');

  narrator.title('Version 3.0.0 is signed and complete, but its application does not start.');
  service.world.targetVersionId = 'v3';
  await technician(gateway, '--update-now');
  daemon = await rebootWhenAsked(actors, daemon);
  narrator.tell('Its health checks have 3 seconds; then the agent rolls back.');
  daemon = await rebootWhenAsked(actors, daemon);
  await settled(actors, 'rolled-back');
  await technician(gateway, 'status');

  narrator.title('During all this, a sensor has measured the room. Now the service stops.');
  const away = { service, gateway, technician: async (...args: string[]) => technician(gateway, ...args) };
  await stage.waitFor('the measurements of the time without a service', serviceAway(away, stage.signal));

  const { currentVersionId } = service.world.things[0] ?? {};
  narrator.title(
    `Slot ${gateway.booted} is running, and the service has version ${currentVersionId} on record. ` +
      `It has received ${temperatures(service).length} temperatures.`,
  );
  if (currentVersionId !== 'v2' || !gateway.imageBeginsWith(gateway.booted, 'healthy 2.0.0'))
    throw new Error('wrong end');
  if (keep) await stay(actors, daemon);
  else await stop(daemon);
}

interface Actors {
  readonly stage: Stage;
  readonly service: StandIn;
  readonly gateway: FileGateway;
}

/** Keeps the gateway running, with its reboots, until the demo is interrupted. */
async function stay({ stage, gateway }: Actors, daemon: ChildProcess): Promise<never> {
  const agent = `./agent --config ${gateway.configFile}`;
  narrator.title('Gateway and service run until Ctrl-C. In another terminal, in this directory:');
  const commands = ['status', 'history', 'hold 1h', 'resume', '--update-now --force', 'doctor', 'queue status'];
  for (const words of commands) narrator.say(`  ${agent} ${words}`);
  stage.stay();
  for (let running = daemon; ;) running = await rebootWhenAsked({ stage, gateway }, running);
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
async function cutWhileFlashing(actors: Actors, meter: Meter, daemon: ChildProcess): Promise<ChildProcess> {
  const { stage, gateway } = actors;
  await stage.waitFor('flashing the meter', meter.cutWhileFlashed(stage.signal));
  await stop(daemon, 'SIGKILL');
  narrator.tell('── power loss ── the meter has half a program, and the gateway was on trial ──');
  await meter.power();
  narrator.tell(`The meter sends ${await meter.says()}: half a program never runs.`);
  narrator.tell(`── power is back ── the bootloader chooses slot ${gateway.boot()} ──`);
  return rebootWhenAsked(actors, await gateway.startDaemon(narrator.log));
}

async function technician(gateway: FileGateway, ...args: readonly string[]): Promise<void> {
  await narrator.command(`agent ${args.join(' ')}`, async () => {
    await once(gateway.spawn(args, 'inherit'), 'exit');
  });
}

async function rebootWhenAsked(
  { stage, gateway }: Pick<Actors, 'stage' | 'gateway'>,
  daemon: ChildProcess,
): Promise<ChildProcess> {
  const died = once(daemon, 'exit').then(([code]) => {
    throw new Error(`the daemon ended with ${String(code)}`);
  });
  const asked = Promise.race([gateway.rebootRequest(stage.signal), died]);
  await stage.waitFor('the reboot requested by the daemon', asked);
  died.catch(() => {}); // killed by the reboot
  await stop(daemon, 'SIGKILL');
  narrator.tell(`── reboot ── the bootloader chooses slot ${gateway.boot()} ──`);
  return gateway.startDaemon(narrator.log);
}

/** Waits until the result was reported to the service and the daemon has completed another check. */
async function settled({ stage, service }: Actors, outcome: 'installed' | 'rolled-back'): Promise<void> {
  const isTold = (): boolean => {
    const told = service.world.things[0]?.properties.get('update_outcome');
    return (told as { readonly outcome?: string } | undefined)?.outcome === outcome;
  };
  await stage.until(`the outcome ${outcome} at the service`, isTold);
  const looks = (): number => service.calls.filter(({ operation }) => operation === 'targetVersion').length;
  const before = looks();
  await stage.until('the next update check of the daemon', () => looks() > before);
  service.world.things[0]?.properties.delete('update_outcome');
}

async function main(): Promise<number> {
  using stage = new Stage();
  try {
    const { values } = parseArgs({ options: { keep: { type: 'boolean' }, help: { type: 'boolean' } } });
    if (values.help === true) {
      process.stdout.write(usage);
      return 0;
    }
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => stage.leave());
    process.stdout.on('error', () => stage.leave()); // `| head` closes its input
    await demo(values.keep === true, stage);
    return 0;
  } catch (error) {
    if (stage.signal.reason instanceof Left) return 130;
    const why = error instanceof Error ? error.message : String(error);
    const isMisuse = error instanceof TypeError && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS');
    if (isMisuse) process.stderr.write(`demo: ${why}\n${usage}`);
    else narrator.title(`The demo failed: ${why}`);
    return isMisuse ? 64 : 70;
  }
}

process.exitCode = await main();
