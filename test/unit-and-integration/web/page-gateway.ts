import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { FileGateway } from '../../fakes/machine/file-gateway.ts';
import type { FileGatewayOptions } from '../../fakes/machine/file-gateway.ts';
import { freePort } from '../../fakes/machine/free-port.ts';
import { bufferContent, randomContent } from '../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../fakes/service/stand-in.ts';
import type { StandIn } from '../../fakes/service/stand-in.ts';
import { buildArtifact } from '../firmware/artifact/build-artifact.ts';
import { makeKeyPair } from '../firmware/artifact/keys.ts';

const MIB = 1024 * 1024;
export const keys = makeKeyPair('ecdsa-p256', 'release.pem');

/** A release of this size, signed with a key that the gateway trusts. */
export async function release(name: string, sizeBytes: number): Promise<Buffer> {
  const content = Buffer.from(randomContent(sizeBytes, 3).read(0, sizeBytes));
  return buildArtifact({
    name,
    devices: ['demo-gateway'],
    files: [{ name: 'rootfs.ext4', content }],
    key: keys.privateKey,
  });
}

export interface PageGateway extends AsyncDisposable {
  readonly service: StandIn;
  readonly gateway: FileGateway;
  readonly port: number;
  readonly url: string;
}

export const PASSWORD = 'correct horse battery';

/** A gateway with a page, and with sensors; v1 is installed, its daemon does not run yet. `operate`: with a password, too. */
export async function pageGateway(
  { operate = false, pageToml = '' }: { readonly operate?: boolean; readonly pageToml?: string },
  options: Partial<FileGatewayOptions> = {},
): Promise<PageGateway> {
  await using stack = new AsyncDisposableStack();
  const port = await freePort();
  const directory = await mkdtemp(join(tmpdir(), 'page-gateway-'));
  stack.defer(async () => rm(directory, { recursive: true, force: true, maxRetries: 5 }));
  const passwordFile = join(directory, 'page-password');
  await writeFile(passwordFile, `${PASSWORD}\n`, { mode: 0o600 });
  const versions = [
    { id: '1', name: 'v1', firmware: bufferContent(await release('v1', 1_000)) },
    { id: '2', name: 'v2 <b>', firmware: bufferContent(await release('v2 <b>', 8 * MIB)) },
  ];
  const service = stack.use(await startStandIn({ versions, targetVersionId: '1' }));
  const extraToml = `
[web]
listen = "127.0.0.1:${port}"
${operate ? `allow_operations = true\npassword_file = "${passwordFile}"` : ''}
${pageToml}

[[sensors]]
event = "temperature"
every = "1s"
source = { kind = "exec", command = ["/bin/sh", "-c", "date +2%S"] }

[[sensors]]
event = "door <b>"
every = "1s"
source = { kind = "exec", command = ["/bin/false"] }

[targets.meter]
kind = "mcu"
port = "/dev/ttyUSB77"
protocol = "stk500v1"
baud = 115200
`;
  const gateway = stack.use(
    await FileGateway.create({
      serviceUrl: service.url,
      image: Buffer.from('healthy 0'),
      slotBytes: 16 * MIB,
      trustedKey: keys.publicPem,
      extraToml,
      ...options,
    }),
  );
  // Operators may bring an older release only where the configuration allows it.
  const config = await readFile(gateway.configFile, 'utf8');
  await writeFile(gateway.configFile, config.replace('[trust]', '[trust]\ndowngrade = "allow"'));
  await gateway.run('--update-now');
  gateway.boot();
  await gateway.run('--update-now');
  const opened = stack.move();
  const url = `http://127.0.0.1:${port}/`;
  return { service, gateway, port, url, [Symbol.asyncDispose]: async () => opened.disposeAsync() };
}
