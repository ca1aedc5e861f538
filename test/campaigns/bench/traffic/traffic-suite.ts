import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

import { FileIdentityStore } from '../../../../src/service/identity.ts';
import { RestTransport } from '../../../../src/service/rest/transport.ts';
import { ServiceSession } from '../../../../src/service/session.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import { systemClock } from '../../../../src/system/time/clock.ts';
import { FileGateway } from '../../../fakes/machine/file-gateway.ts';
import { makeKeyPair } from '../../../unit-and-integration/firmware/artifact/keys.ts';
import { Mosquitto } from '../../../unit-and-integration/service/messaging/mosquitto.ts';
import { Authority } from '../../../unit-and-integration/service/rest/certificates.ts';
import { restSettings } from '../../../unit-and-integration/service/rest/rest-rig.ts';
import { agentEnvironment } from '../bench-agent.ts';
import type { BenchContext } from '../context.ts';
import type { Figure, SuiteResult } from '../figures.ts';
import { imageFile, writeSignedArtifact, writeText } from '../firmware-files.ts';
import { end, nothingToDo } from '../idle/idle-daemon.ts';
import { ServiceProcess } from '../service-process.ts';
import { spreadOf } from '../statistics.ts';
import { CountedLine } from './counted-line.ts';
import type { Carried } from './counted-line.ts';
import { peerPolling } from './peer-polling.ts';

const run = promisify(execFile);
const MIB = 2 ** 20;
const IMAGE_BYTES = 16 * MIB;
/** The difference between the two releases: 1 %, in one piece. */
const CHANGED_BYTES = Math.round(IMAGE_BYTES / 100);
const CHECKS = 20;
/** After a pause in which a connection without traffic is closed. */
const IDLE_CHECKS = { REST: 3, 'REST over TLS': 3, MQTT: 0 } as const;
const IDLE_MS = 15_000;
const CHECKS_PER_DAY = 96;
const SENSORS = 10;
const READINGS_PER_DAY = SENSORS * 8_640;

const { signal } = new AbortController();

interface Rig extends BenchContext {
  readonly texts: Readonly<Record<'base' | 'whole' | 'delta', string>>;
  readonly base: string;
  readonly artifactBytes: Readonly<Record<'whole' | 'delta', number>>;
  readonly trustedKey: string;
  readonly broker: Mosquitto;
}

type Form = 'REST' | 'REST over TLS' | 'MQTT';

/** The bytes of update checks, releases and measurements, counted between the built program and the service. */
export async function trafficSuite(context: BenchContext): Promise<SuiteResult> {
  await using broker = await Mosquitto.start();
  const rig = { ...context, ...(await writeReleases(context)), broker };
  const figures: Figure[] = [];
  for (const form of ['REST', 'REST over TLS', 'MQTT'] as const) {
    context.tell(`update checks and releases over ${form}`);
    figures.push(...(await updates(rig, form)));
  }
  for (const { name, sent, received, checksPerDay } of peerPolling) {
    const how = `from its documentation, ${sent} up and ${received} down, ${checksPerDay} a day by default; not captured`;
    figures.push(bytes(`an update check of ${name}`, sent + received, how));
  }
  return { suite: 'traffic', measurements: [], figures: [...figures, ...(await datapoints(rig))] };
}

async function writeReleases({ workFolder, program }: BenchContext) {
  const at = (name: string): string => join(workFolder, name);
  const keys = makeKeyPair('ecdsa-p256');
  const image = randomBytes(IMAGE_BYTES);
  await writeFile(at('base.img'), image);
  randomBytes(CHANGED_BYTES).copy(image, IMAGE_BYTES / 2);
  await writeFile(at('whole.img'), image);
  await writeFile(at('key.pem'), keys.privatePem, { mode: 0o600 });
  for (const name of ['base', 'whole'])
    await writeSignedArtifact({ path: at(name), name }, await imageFile(at(`${name}.img`)), keys);
  const options = ['--name', 'delta', '--device-type', 'demo-gateway', '--key', at('key.pem'), '--output', at('delta')];
  await run(program, ['artifact', 'delta', at('base.img'), at('whole.img'), ...options]);
  const text = async (name: string): Promise<string> => writeText(at(`${name}.json`), at(name));
  const size = async (name: string): Promise<number> => (await stat(at(name))).size;
  return {
    texts: { base: await text('base'), whole: await text('whole'), delta: await text('delta') },
    base: at('base.img'),
    artifactBytes: { whole: await size('whole'), delta: await size('delta') },
    trustedKey: keys.publicPem,
  };
}

/** On a gateway that installed the base, by its daemon. */
async function updates(rig: Rig, form: Form): Promise<readonly Figure[]> {
  await using opened = new AsyncDisposableStack();
  const { service, line, gateway } = await connect(rig, form, opened);
  const env = { ...process.env, ...agentEnvironment(rig.workFolder, gateway) };
  const command = async (...args: readonly string[]): Promise<unknown> =>
    run(rig.program, ['--config', gateway.configFile, ...args], { env });
  const check = async (): Promise<unknown> => command('--update-now');
  await service.setTarget('base');
  await check();
  gateway.boot();
  await check(); // commits the update
  const argv = ['--config', gateway.configFile, 'run'];
  const daemon = spawn(rig.program, argv, { stdio: ['ignore', 'ignore', 'pipe'], env });
  opened.defer(async () => end(daemon));
  for await (const text of createInterface({ input: daemon.stderr })) if (nothingToDo.test(text)) break;
  daemon.stderr.resume();
  await check();
  const checks: Carried[] = [];
  for (let count = 0; count < CHECKS; count += 1) checks.push(await line.during(check));
  for (let count = 0; count < IDLE_CHECKS[form]; count += 1) {
    await sleep(IDLE_MS);
    checks.push(await line.during(check));
  }
  const install = async (name: 'whole' | 'delta'): Promise<Carried> => {
    await service.setTarget(name);
    return line.during(async () => command('--update-now', '--no-reboot'));
  };
  const [whole, delta] = [await install('whole'), await install('delta')];
  return [
    ...checkFigures(form, checks),
    release(`a release of 16 MiB over ${form}`, whole, rig.artifactBytes.whole),
    release(`the same as a delta, 1 % changed, over ${form}`, delta, rig.artifactBytes.delta),
  ];
}

interface Connected {
  readonly service: ServiceProcess;
  readonly line: CountedLine;
  readonly gateway: FileGateway;
}

/** A gateway, its service, and the counted connection between them. */
async function connect(rig: Rig, form: Form, opened: AsyncDisposableStack): Promise<Connected> {
  const { broker, texts } = rig;
  const options = { image: await readFile(rig.base), slotBytes: IMAGE_BYTES, trustedKey: rig.trustedKey };
  if (form === 'MQTT') {
    const service = opened.use(await ServiceProcess.start({ texts, brokerUrl: broker.url }));
    const line = opened.use(await CountedLine.to(broker.port));
    const extraToml = `[service.messaging]\nurl = "mqtt://127.0.0.1:${line.port}"\ntopic_id = "a1b2"\n`;
    const serviceToml = 'transport = "messaging"';
    const gateway = await FileGateway.create({ ...options, serviceUrl: service.url, serviceToml, extraToml });
    return { service, line, gateway: opened.use(gateway) };
  }
  const authority = opened.use(await Authority.create());
  const tls = form === 'REST' ? undefined : await authority.issue('service', 'IP:127.0.0.1');
  const service = opened.use(await ServiceProcess.start({ texts, ...(tls && { tls, nginxFolder: rig.workFolder }) }));
  const { protocol, port } = new URL(service.url);
  const line = opened.use(await CountedLine.to(Number(port)));
  const serviceToml = tls === undefined ? '' : `ca_file = "${authority.caFile}"`;
  const serviceUrl = `${protocol}//127.0.0.1:${line.port}`;
  return { service, line, gateway: opened.use(await FileGateway.create({ ...options, serviceUrl, serviceToml })) };
}

/** Connections that stay idle are closed, so a check by the schedule usually opens one. */
function checkFigures(form: Form, checks: readonly Carried[]): readonly Figure[] {
  const of = (name: string, those: readonly Carried[], target?: number): readonly Figure[] => {
    if (those.length === 0) return [];
    const value = spreadOf(those.map(sum));
    const [{ sent, received } = { sent: NaN, received: NaN }] = those;
    const daily = ((value.median * CHECKS_PER_DAY) / 1024).toFixed(0);
    const how = `${those.length} checks; ${sent} up and ${received} down, headers included; ${daily} KiB a day every 15 min`;
    return [{ name: `an update check over ${form}, ${name}`, unit: 'B', value, target, how }];
  };
  return [
    ...of(
      'open connection',
      checks.filter(({ connections }) => connections === 0),
      1024,
    ),
    ...of(
      'new connection',
      checks.filter(({ connections }) => connections > 0),
    ),
  ];
}

function release(name: string, carried: Carried, artifactBytes: number): Figure {
  const how = `${carried.sent} up, the rest down; the artifact has ${artifactBytes} bytes, ×`;
  return bytes(name, sum(carried), `${how} ${(sum(carried) / artifactBytes).toFixed(3)}`);
}

function sum({ sent, received }: Carried): number {
  return sent + received;
}

/** Ten sensors at 10 s: a request for each reading, as by default, or batches. */
async function datapoints({ texts, workFolder, tell }: Rig): Promise<readonly Figure[]> {
  await using service = await ServiceProcess.start({ texts });
  await using line = await CountedLine.to(Number(new URL(service.url).port));
  const parts = { clock: systemClock, random: Math.random, log: silentLog };
  await using transport = new RestTransport(restSettings(`http://127.0.0.1:${line.port}`), parts);
  const identities = new FileIdentityStore(workFolder, 'traffic', silentLog);
  const session = new ServiceSession({ ...parts, transport, identities, serialNumber: 'traffic' });
  await session.thing(signal);
  const figures: Figure[] = [];
  for (const [batch, when] of [
    [1, '`gather = "1s"`, the default: each reading by itself'],
    [60, '`gather = "10m"`'],
    [500, 'after an outage'],
  ] as const) {
    tell(`datapoints, ${batch} in a request`);
    const value = Array.from({ length: batch }, (_, index) => ({
      value: Number((21 + index / 100).toFixed(2)),
      at: new Date(1_795_737_600_000 + index * 10_000).toISOString(),
    }));
    await session.postDatapoints('temperature', value, signal);
    const { sent, received } = await line.during(async () => session.postDatapoints('temperature', value, signal));
    const each = (sent + received) / batch;
    const daily = ((each * READINGS_PER_DAY) / MIB).toFixed(1);
    const how = `REST, ${when}; ${sent} up and ${received} down for ${batch}; ten sensors at 10 s: ${daily} MiB a day`;
    figures.push({ ...bytes(`a datapoint, ${batch} in a request`, each, how), target: batch >= 60 ? 60 : undefined });
  }
  return figures;
}

function bytes(name: string, value: number, how: string): Figure {
  return { name, unit: 'B', value: spreadOf([value]), how };
}
