import { readFile } from 'node:fs/promises';

import { beforeEach, describe, expect, test } from 'vitest';

import { artifact, image, releaseKey } from '../../../fakes/machine/demo-firmware.ts';
import { FileGateway, stop } from '../../../fakes/machine/file-gateway.ts';
import { bufferContent } from '../../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';
import type { StandIn } from '../../../fakes/service/stand-in.ts';
import { untilTestEnds } from '../../../until-test-ends.ts';
import { Authority } from '../../service/rest/certificates.ts';
import type { Certificate } from '../../service/rest/certificates.ts';
import { startProxy } from '../../service/rest/connection/test-proxy.ts';
import type { TestProxy } from '../../service/rest/connection/test-proxy.ts';

const firmware = bufferContent(await artifact('v1', image('healthy 1')));

let authority: Authority;
let client: Certificate;
let service: StandIn;
let proxy: TestProxy;

beforeEach(async () => {
  authority = untilTestEnds(await Authority.create());
  const { cert, key } = await authority.issue('service', 'IP:127.0.0.1');
  client = await authority.issue('gateway', 'DNS:gateway');
  const tls = { cert, key, clientCa: await readFile(authority.caFile, 'utf8') };
  service = untilTestEnds(await startStandIn({ versions: [{ id: 'v1', firmware }], tls }));
  proxy = untilTestEnds(await startProxy({ credentials: 'gw:secret' }));
});

async function create(serviceToml: string): Promise<FileGateway> {
  const { url: serviceUrl } = service;
  const trust = { trustedKey: releaseKey.publicPem, image: image('healthy 0'), slotBytes: 2_000_000 };
  return untilTestEnds(await FileGateway.create({ serviceUrl, serviceToml, ...trust }));
}

const throughProxy = (): Record<string, string> => ({
  https_proxy: proxy.url.replace('http://', 'http://gw:secret@'),
  no_proxy: '',
  NO_PROXY: '',
});

async function updateNow(gateway: FileGateway, environment: Record<string, string>): Promise<string> {
  const { exitCode, stdout, stderr } = await gateway.runIn(environment, '--update-now');
  return `${exitCode}: ${`${stdout}${stderr}`.replaceAll(/\s+/g, ' ')}`;
}

describe('a service behind TLS with its own authority, client certificates and a proxy', () => {
  test('updates the gateway from activation to switch', async () => {
    const { certFile, keyFile } = client;
    const gateway = await create(
      `ca_file = "${authority.caFile}"\nclient_certificate_file = "${certFile}"\nclient_key_file = "${keyFile}"`,
    );
    expect(await updateNow(gateway, throughProxy())).toMatch(/^0: .*is rebooting into it/);
    gateway.boot();
    expect(await updateNow(gateway, throughProxy())).toMatch(/^0: .*Done: v1 is installed/);
    expect(service.world.things[0]?.currentVersionId).toBe('v1');
    expect(new Set(proxy.requests)).toEqual(new Set([`CONNECT ${new URL(service.url).host}`]));
  });

  test.each([
    ['without the authority', '', /^69: .*tls-unknown-ca/],
    [
      'with an authority that is no certificate',
      'ca_file = "/etc/hostname"',
      /^78: .*not a PEM file \(tls-files-invalid\) check service\.ca_file/,
    ],
  ])('is not reached %s', async (_, toml, line) => {
    const gateway = await create(toml);
    expect(await updateNow(gateway, throughProxy())).toMatch(line);
    expect(service.calls).toEqual([]);
  });

  // Regression: "not activated yet", and no word of the certificate that kept the gateway from it.
  describe('does not know the gateway yet: doctor and status tell why, and what to do', () => {
    async function told(gateway: FileGateway, ...command: readonly string[]): Promise<string> {
      return (await gateway.run(...command)).stdout.replaceAll(/\s+/g, ' ');
    }

    /** Returns doctor's output while a daemon runs whose first request has failed. */
    async function toldBesideDaemon(gateway: FileGateway): Promise<string> {
      const daemon = await gateway.startDaemon();
      let status = await told(gateway, 'status');
      while (status.includes('Busy') || !status.includes('not activated yet')) status = await told(gateway, 'status');
      expect(status).toMatch(/not activated yet: activation: .* To do agent doctor/);
      const said = await told(gateway, 'doctor');
      expect(await stop(daemon)).toBe(0);
      return said;
    }

    test('where no connection comes about, with a daemon and without one', async () => {
      const gateway = await create('');
      const cause =
        /not activated at https:\S+ yet: 127\S+ has a certificate .*\(tls-unknown-ca\) set service\.ca_file/;
      expect(await told(gateway, 'doctor')).toMatch(cause);
      expect(await toldBesideDaemon(gateway)).toMatch(cause);
      expect(service.calls).toEqual([]);
    });

    test('where the question of the daemon fails', async () => {
      const said = await toldBesideDaemon(await create(`ca_file = "${authority.caFile}"`));
      expect(said).toMatch(/not activated at https:\S+ yet: activation: 127\S+ does not accept our client certificate/);
    });
  });

  test('is unreachable with the wrong password for the proxy, which is never shown', async () => {
    const gateway = await create(`ca_file = "${authority.caFile}"`);
    const environment = { ...throughProxy(), https_proxy: proxy.url.replace('http://', 'http://gw:wr0ng@') };
    const said = await updateNow(gateway, environment);
    expect(said).toMatch(/^78: .*proxy-authentication/);
    expect(said).not.toContain('wr0ng');
  });
});

test('a daemon that starts in 1990 reports that its clock is wrong, and continues when it is set', async () => {
  const { caFile } = authority;
  const gateway = await create(
    `ca_file = "${caFile}"\nclient_certificate_file = "${client.certFile}"\nclient_key_file = "${client.keyFile}"`,
  );
  const clockFile = await authority.write('clock', '@1990-01-01 00:00:00');
  const daemon = await gateway.startDaemon(() => {}, {
    LD_PRELOAD: '/usr/$LIB/faketime/libfaketime.so.1',
    FAKETIME_TIMESTAMP_FILE: clockFile,
    FAKETIME_NO_CACHE: '1',
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
  });
  expect(await gateway.run('check')).toMatchObject({
    exitCode: 69,
    stderr: expect.stringContaining('clock') as unknown,
  });
  expect(await gateway.json('status')).toMatchObject({
    daemon: true,
    service: { lastError: expect.stringContaining('not valid yet') as unknown },
  });
  await authority.write('clock', '+0');
  expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
  await gateway.rebootRequest(AbortSignal.timeout(60_000));
  expect(await stop(daemon)).toBe(0);
});
