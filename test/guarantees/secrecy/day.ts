import { once } from 'node:events';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';

import { FileGateway, stop } from '../../fakes/machine/file-gateway.ts';
import type { FileGatewayOptions } from '../../fakes/machine/file-gateway.ts';
import { bufferContent } from '../../fakes/service/firmware-content.ts';
import type { FirmwareContent } from '../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../fakes/service/stand-in.ts';
import type { StandIn } from '../../fakes/service/stand-in.ts';
import { openReport } from '../../unit-and-integration/cli/support-bundle/open-report.ts';
import { requestText, rawConnection } from '../../unit-and-integration/control/control-rig.ts';
import { buildArtifact } from '../../unit-and-integration/firmware/artifact/build-artifact.ts';
import { makeKeyPair } from '../../unit-and-integration/firmware/artifact/keys.ts';
import { Mosquitto } from '../../unit-and-integration/service/messaging/mosquitto.ts';
import { Authority } from '../../unit-and-integration/service/rest/certificates.ts';
import { startProxy } from '../../unit-and-integration/service/rest/connection/test-proxy.ts';
import type { TestProxy } from '../../unit-and-integration/service/rest/connection/test-proxy.ts';
import { Eavesdropper } from './eavesdropper.ts';

const PROXY_PASSWORD = 'pr0xy-w0rd?&';
const BROKER_PASSWORD = 'br0ker word';
const SENSOR_PASSWORD = 'sens0r-w0rd';
const keys = makeKeyPair('ecdsa-p256', 'release.pem');

interface Surroundings {
  readonly service: StandIn;
  readonly proxy: TestProxy;
  readonly broker: Mosquitto;
  readonly authority: Authority;
  readonly settings: FileGatewayOptions;
  readonly printing: string;
  readonly secretFiles: readonly string[];
}

/**
 * A gateway behind a proxy with a password, with a client certificate and a broker. All its output is recorded:
 * standard output, the log at level debug, replies on its socket, files in its directories (except identity.json) and
 * requests to the service.
 */
export class Day implements AsyncDisposable {
  readonly ear = new Eavesdropper();
  readonly gateway: FileGateway;
  readonly service: StandIn;
  readonly broker: Mosquitto;
  readonly authority: Authority;
  readonly #settings: FileGatewayOptions;
  readonly #proxyUrl: string;
  /** Programs that replace journalctl and others. */
  readonly #printing: string;
  readonly #secretFiles: readonly string[];
  readonly #resources: AsyncDisposable;

  private constructor(gateway: FileGateway, around: Surroundings, resources: AsyncDisposable) {
    this.gateway = gateway;
    this.service = around.service;
    this.broker = around.broker;
    this.authority = around.authority;
    this.#settings = around.settings;
    this.#proxyUrl = around.proxy.url.replace('//', `//agent:${encodeURIComponent(PROXY_PASSWORD)}@`);
    this.#printing = around.printing;
    this.#secretFiles = around.secretFiles;
    this.#resources = resources;
  }

  static async begin(): Promise<Day> {
    await using stack = new AsyncDisposableStack();
    const authority = stack.use(await Authority.create());
    const server = await authority.issue('service', 'IP:127.0.0.1');
    const client = await authority.issue('gateway', 'DNS:gateway');
    const [first, second, unsigned] = [await firmware('1'), await firmware('2'), await firmware('3', false)];
    const service = stack.use(
      await startStandIn({
        tls: { key: server.key, cert: server.cert, clientCa: readFileSync(authority.caFile, 'utf8') },
        versions: [
          { id: 'v1', firmware: first },
          { id: 'v2', firmware: second },
          { id: 'unsigned', firmware: unsigned },
        ],
        keyRequired: 'everything',
      }),
    );
    const proxy = stack.use(await startProxy({ credentials: `agent:${PROXY_PASSWORD}` }));
    const broker = stack.use(await Mosquitto.start({ users: { gateway: BROKER_PASSWORD } }));
    const password = await authority.write('broker-password', `${BROKER_PASSWORD}\n`);
    const sensorPassword = await authority.write('sensor-password', `${SENSOR_PASSWORD}\n`);
    const printing = await mkdtemp(join(tmpdir(), 'printing-'));
    stack.defer(async () => rm(printing, { recursive: true, force: true }));
    const settings: FileGatewayOptions = {
      serviceUrl: service.url,
      image: Buffer.alloc(100_000, 'healthy 0\n'),
      slotBytes: 1024 * 1024,
      trustedKey: keys.publicPem,
      serviceToml: [
        `ca_file = "${authority.caFile}"`,
        `client_certificate_file = "${client.certFile}"`,
        `client_key_file = "${client.keyFile}"`,
        'timeouts = { first_byte = "1s", idle = "1s", total = "3s" }',
        `messaging = { url = "${broker.url}", username = "gateway", password_file = "${password}", topic_id = "a1", wake_topic = "wake" }`,
      ].join('\n'),
      extraToml: [
        '[log]\nlevel = "debug"',
        `[web]\nlisten = "${join(printing, 'page.sock')}"`,
        `[[sensors]]\nevent = "e"\nevery = "1s"\nsource = { kind = "mqtt", url = "mqtt://127.0.0.1:9", username = "x", password_file = "${sensorPassword}", topic = "t" }`,
      ].join('\n'),
    };
    const gateway = stack.use(await FileGateway.create(settings));
    const secretFiles = [join(gateway.directory, 'state/identity.json'), client.keyFile, password, sensorPassword];
    const around = { service, proxy, broker, authority, settings, printing, secretFiles };
    const day = new Day(gateway, around, stack.move());
    day.ear.keep('the password of the proxy', PROXY_PASSWORD);
    day.ear.keep('the credentials of the proxy', `agent:${PROXY_PASSWORD}`);
    day.ear.keep('the password of the broker', BROKER_PASSWORD);
    day.ear.keep('the password of a sensor', SENSOR_PASSWORD);
    day.ear.keepPem('the private key of the client certificate', client.key);
    return day;
  }

  /** As a technician types it; through the proxy. */
  async type(words: string, environment: Readonly<Record<string, string>> = {}): Promise<void> {
    this.#keepKey();
    const all = { ...this.#environment, ...environment };
    const { stdout, stderr } = await this.gateway.runIn(all, ...words.split(' '));
    this.#keepKey();
    this.ear.hear(`agent ${words}`, `${stdout}${stderr}`);
  }

  /** Makes a support bundle while the machine's own programs print the secrets of this gateway: all, or one. */
  async report(secret?: string): Promise<void> {
    const known = [PROXY_PASSWORD, `agent:${PROXY_PASSWORD}`, BROKER_PASSWORD, SENSOR_PASSWORD];
    const words = secret === undefined ? known : [secret];
    const spelled = [...words, ...words.map((word) => Buffer.from(word).toString('base64'))];
    const files = secret === undefined ? `cat '${this.#secretFiles.join("' '")}'` : '';
    const lines = ['#!/bin/sh', files, ...spelled.map((word) => `echo 'printed here: ${word}'`), 'exit 0', ''];
    for (const name of ['journalctl', 'systemctl', 'dmesg']) {
      await writeFile(join(this.#printing, name), lines.join('\n'), { mode: 0o755 });
    }
    const file = join(this.#printing, 'report.tar.gz');
    const path = `${this.#printing}:${process.env['PATH'] ?? ''}`;
    await this.type(`support-bundle ${file} --overwrite`, { PATH: path });
    for (const [name, text] of Object.entries(await openReport(file))) this.ear.hear(`${name} of the report`, text);
  }

  /** A daemon for the time that something takes. */
  async withDaemon(action: (logged: (words: string) => Promise<void>) => Promise<void>): Promise<void> {
    const child = this.gateway.spawn(['run'], 'pipe', this.#environment);
    let log = '';
    child.stderr?.on('data', (text: Buffer) => (log += text.toString()));
    const logged = async (words: string): Promise<void> => {
      while (!log.includes(words)) {
        if (child.exitCode !== null || child.stderr === null) throw new Error(`the daemon ended: ${log}`);
        await Promise.race([once(child.stderr, 'data'), once(child, 'exit')]);
      }
    };
    await logged('agent started');
    try {
      await action(logged);
      await this.#askTheSocket();
    } finally {
      await stop(child);
      this.ear.hear('the log of the daemon', log);
    }
  }

  async configure(more: Partial<FileGatewayOptions> = {}): Promise<void> {
    await this.gateway.configure({ ...this.#settings, ...more });
  }

  /** The proxy with a wrong password in its address. */
  proxyWith(password: string): string {
    return this.#proxyUrl.replace(/:[^:@]*@/, `:${password}@`);
  }

  /** Records the content of the disk, and requests to the service. */
  listenAround(): void {
    this.#keepKey();
    for (const path of filesBelow(this.gateway.directory)) {
      const isPermitted = path.includes('/state/identity.json') || path.endsWith('config.toml');
      if (!isPermitted && statSync(path).isFile()) this.ear.hear(path, readFileSync(path, 'latin1'));
    }
    for (const { method, path, headers, body } of this.service.calls) {
      const { 'x-apikey': key = '', ...others } = headers;
      if (key !== '') this.ear.keep('an API key', key);
      this.ear.hear(`the call ${method} ${path}`, `${path} ${JSON.stringify(others)} ${body}`);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#resources[Symbol.asyncDispose]();
  }

  get #environment(): Readonly<Record<string, string>> {
    return { NO_PROXY: '', no_proxy: '', HTTPS_PROXY: this.#proxyUrl, https_proxy: this.#proxyUrl };
  }

  #keepKey(): void {
    for (const { apiKey } of this.service.world.things) if (apiKey !== '') this.ear.keep('an API key', apiKey);
  }

  async #askTheSocket(): Promise<void> {
    const operations = ['status', 'check', 'doctor', 'queue', 'sensors', 'boards', 'properties/p', 'nothing'];
    for (const path of [...operations.map((operation) => `/v1/${operation}`), '/metrics']) {
      const connection = rawConnection(join(this.gateway.directory, 'run/root.sock'), requestText('GET', path));
      this.ear.hear(`GET ${path} on the control socket`, await connection.ended);
    }
    const asked = requestText('GET', '/').replace('host: agent', 'host: localhost');
    this.ear.hear('the page', await rawConnection(join(this.#printing, 'page.sock'), asked).ended);
  }
}

async function firmware(version: string, isSigned = true): Promise<FirmwareContent> {
  const files = [{ name: 'rootfs.ext4', content: Buffer.alloc(100_000, `healthy ${version}\n`) }];
  const key = isSigned ? keys.privateKey : undefined;
  return bufferContent(await buildArtifact({ name: `v${version}`, devices: ['demo-gateway'], files, key }));
}

function filesBelow(directory: string): readonly string[] {
  const names = readdirSync(directory, { recursive: true, encoding: 'utf8' });
  return names.map((name) => join(directory, name)).filter((path) => !/slot-[ab]\.img$/.test(path));
}
