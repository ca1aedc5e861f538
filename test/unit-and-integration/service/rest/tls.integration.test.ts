import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { rootCertificates } from 'node:tls';

import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { operations } from '../../../../src/service/operations.ts';
import type { TlsFiles } from '../../../../src/system/tls-files.ts';
import { ManualClock } from '../../../fakes/clock.ts';
import { asThing } from '../../../fakes/service/as-thing.ts';
import { randomContent } from '../../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';
import type { StandIn } from '../../../fakes/service/stand-in.ts';
import { Authority } from './certificates.ts';
import type { Certificate } from './certificates.ts';
import { readAll, restRig } from './rest-rig.ts';

const { signal } = new AbortController();
const address = 'IP:127.0.0.1';
const versions = [{ id: '1', firmware: randomContent(1_000_000) }];

let authority: Authority;
let good: Certificate;

beforeAll(async () => {
  authority = await Authority.create();
  good = await authority.issue('service', address);
});

afterAll(async () => {
  await authority[Symbol.asyncDispose]();
});

async function activate(service: StandIn, tls: TlsFiles, clock?: ManualClock): Promise<unknown> {
  await using rig = restRig(service.url, { tls }, clock);
  return await rig.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal);
}

describe('a service with TLS', () => {
  test('is trusted by its authority, for small calls and for firmware', async () => {
    await using service = await startStandIn({ tls: good, versions });
    await using rig = restRig(service.url, { tls: { caFile: authority.caFile } });
    const thing = await rig.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal);
    service.fail({ operation: 'firmware', fault: { kind: 'truncate', afterBytes: 500_000 } });
    await using text = await rig.transport.firmware('1', asThing(thing), undefined, signal);
    expect((await readAll(text.chunks)).byteLength).toBe(text.totalBytes);
  });

  // /etc/ssl/certs/ca-certificates.crt, after update-ca-certificates was given an authority of one's own.
  test('is trusted by a file with all public authorities and its own', async () => {
    await using service = await startStandIn({ tls: good });
    const own = await readFile(authority.caFile, 'utf8');
    const caFile = await authority.write('ca-certificates.crt', [...rootCertificates, own].join('\n'));
    expect(await activate(service, { caFile })).toMatchObject({ thingId: expect.any(String) as string });
  });

  test('is counted with the overhead of TLS, and once, although the transfer was interrupted', async () => {
    await using service = await startStandIn({ tls: good, versions });
    await using rig = restRig(service.url, { tls: { caFile: authority.caFile } });
    const thing = await rig.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal);
    service.fail({ operation: 'firmware', fault: { kind: 'truncate', afterBytes: 500_000 } });
    await using text = await rig.transport.firmware('1', asThing(thing), undefined, signal);
    const { byteLength } = await readAll(text.chunks);
    const { sentBytes, receivedBytes } = rig.traffic.report.sinceStart;
    expect(receivedBytes / byteLength).toBeGreaterThan(1.001);
    expect(receivedBytes / byteLength).toBeLessThan(1.02);
    expect(sentBytes).toBeGreaterThan(1_000);
    expect(sentBytes).toBeLessThan(20_000);
  });

  test('of an unknown authority is not', async () => {
    await using service = await startStandIn({ tls: good });
    const call = activate(service, {});
    await expect(call).rejects.toMatchObject({ code: 'tls-unknown-ca', exit: 'unreachable' });
    expect(service.calls).toEqual([]);
  });

  test('that is another host is not', async () => {
    const other = await authority.issue('other', 'DNS:other.example');
    await using service = await startStandIn({ tls: other });
    await expect(activate(service, { caFile: authority.caFile })).rejects.toMatchObject({ code: 'tls-wrong-host' });
  });

  test('whose certificate has expired is not', async () => {
    const expired = await authority.issue('expired', address, { from: '20000101000000Z', until: '20010101000000Z' });
    await using service = await startStandIn({ tls: expired });
    const files = { caFile: authority.caFile };
    await expect(activate(service, files)).rejects.toMatchObject({ code: 'tls-expired' });
    const inThePast = new ManualClock(Date.UTC(1970, 0, 1));
    await expect(activate(service, files, inThePast)).rejects.toMatchObject({ code: 'clock-wrong' });
  });

  test('whose certificate is not valid yet makes the agent doubt its clock', async () => {
    const early = await authority.issue('early', address, { from: '20900101000000Z', until: '20990101000000Z' });
    await using service = await startStandIn({ tls: early });
    const call = activate(service, { caFile: authority.caFile });
    await expect(call).rejects.toMatchObject({ code: 'clock-wrong', remedy: 'retry' });
  });

  test('without TLS is distinguished from a service that is down', async () => {
    await using service = await startStandIn();
    await using rig = restRig(service.url.replace('http:', 'https:'), { tls: { caFile: authority.caFile } });
    await expect(rig.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal)).rejects.toMatchObject({
      code: 'tls-failed',
    });
  });

  test('that never answers the handshake is silent, and is left alone then', async () => {
    const connected = Promise.withResolvers<Socket>();
    await using server = createServer((socket) => connected.resolve(socket.on('error', () => {})));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const deadlines = { connectMs: 200, firstByteMs: 5_000, idleMs: 5_000, totalMs: 5_000, transferMs: 5_000 };
    await using rig = restRig(`https://127.0.0.1:${port}`, { deadlines });
    await expect(rig.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal)).rejects.toMatchObject({
      code: 'connect-timeout',
    });
    const socket = await connected.promise;
    socket.resume();
    await once(socket, 'close');
  });
});

describe('a service that wants a client certificate', () => {
  test('gets it', async () => {
    const client = await authority.issue('client', 'DNS:gateway');
    const clientCa = await readFile(authority.caFile, 'utf8');
    await using service = await startStandIn({ tls: { ...good, clientCa } });
    const { caFile } = authority;
    const files = { caFile, clientCertificateFile: client.certFile, clientKeyFile: client.keyFile };
    expect(await activate(service, files)).toMatchObject({ thingId: 'thing-1' });
  });

  test('reports it to clients without a certificate', async () => {
    // node:https drops such a client without a word; a server on OpenSSL tells it why
    const files = ['-cert', good.certFile, '-key', good.keyFile, '-CAfile', authority.caFile];
    const server = spawn('openssl', ['s_server', '-accept', '127.0.0.1:0', '-Verify', '1', '-www', ...files]);
    await using _ = { [Symbol.asyncDispose]: async () => void server.kill() };
    const lines = createInterface(server.stdout)[Symbol.asyncIterator]();
    let port: string | undefined;
    while (port === undefined) port = /^ACCEPT .*:(\d+)$/.exec(String((await lines.next()).value))?.[1];
    await using rig = restRig(`https://127.0.0.1:${port}`, { tls: { caFile: authority.caFile } });
    const call = rig.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal);
    await expect(call).rejects.toMatchObject({ code: 'tls-client-certificate', exit: 'unreachable' });
  });
});

describe('files that cannot be used', () => {
  test('are named', async () => {
    const { caFile } = authority;
    const notPem = await authority.write('not.pem', 'hello');
    const brokenPem = await authority.write(
      'broken.pem',
      '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n',
    );
    const other = await authority.issue('unrelated', address);
    await using service = await startStandIn({ tls: good });
    const wrong: readonly TlsFiles[] = [
      { caFile: '/nowhere/ca.pem' },
      { caFile: notPem },
      { caFile, clientCertificateFile: good.certFile, clientKeyFile: brokenPem },
      { caFile, clientCertificateFile: good.certFile, clientKeyFile: other.keyFile },
    ];
    for (const files of wrong) {
      await expect(activate(service, files)).rejects.toMatchObject({
        code: 'tls-files-invalid',
        exit: 'configuration',
      });
    }
    await expect(activate(service, { caFile: notPem })).rejects.toThrow(notPem);
  });
});
