import { once } from 'node:events';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { join } from 'node:path';

import { beforeEach, describe, expect, test } from 'vitest';

import { untilTestEnds } from '../../until-test-ends.ts';
import { fakeAgent } from '../cli/fake-operations.ts';
import { forever } from '../control/control-rig.ts';
import { Authority } from '../service/rest/certificates.ts';
import { PASSWORD } from './page-gateway.ts';
import { PageRig } from './page-rig.ts';

let rig: PageRig;

beforeEach(async () => {
  rig = untilTestEnds(await PageRig.create());
});

describe('a file', () => {
  const send = async (session: { readonly cookie: string; readonly token: string }, body: Buffer, more: object = {}) =>
    rig.ask(`/file?name=${encodeURIComponent('../v 2.artifact')}`, {
      method: 'POST',
      headers: { ...rig.own, cookie: session.cookie, 'x-page-token': session.token, ...more },
      body,
    });

  test('is installed from where only the agent reads it, and is gone afterwards', async () => {
    const seen: unknown[] = [];
    rig.answerWith({
      install: async ({ path }) => {
        seen.push(
          path,
          (await stat(path)).mode & 0o777,
          (await stat(join(path, '..'))).mode & 0o777,
          await readFile(path, 'utf8'),
        );
        return { kind: 'up-to-date', version: 'v2' };
      },
    });
    await writeFile(join(rig.directory, 'page'), 'left behind');
    await rig.serve(rig.withPassword);
    expect(await readdir(rig.directory)).toEqual(['password']);
    expect(await send(await rig.login(), Buffer.from('content'))).toMatchObject({ status: 200 });
    while ((await readdir(rig.directory)).includes('page')); // it was answered when it began
    expect(seen).toEqual([join(rig.directory, 'page/v-2.artifact'), 0o600, 0o700, 'content']);
    expect(rig.agent.calls.find(([name]) => name === 'install')?.[1]).toMatchObject({ force: false, reboot: true });
  });

  test('is refused without its token, while another is installed, and where there is no room', async () => {
    const installing = Promise.withResolvers<{ kind: 'up-to-date'; version: string }>();
    rig.answerWith({ install: async () => installing.promise });
    await rig.serve(rig.withPassword);
    const session = await rig.login();
    expect(await send({ ...session, token: 'x' }, Buffer.from('x'))).toMatchObject({ status: 403 });
    expect(await send(session, Buffer.from('x'))).toMatchObject({ status: 200 });
    expect(await send(session, Buffer.from('x'))).toMatchObject({ status: 409 });
    installing.resolve({ kind: 'up-to-date', version: 'v2' });
  });

  test('stays in place while it is installed, also when the page is served again', async () => {
    const installing = Promise.withResolvers<{ kind: 'up-to-date'; version: string }>();
    rig.answerWith({ install: async () => installing.promise });
    await rig.serve(rig.withPassword);
    expect(await send(await rig.login(), Buffer.from('x'))).toMatchObject({ status: 200 });
    await rig.serve(rig.withPassword, {}, join(rig.directory, 'page.sock'));
    expect(await readdir(join(rig.directory, 'page'))).toEqual(['v-2.artifact']);
    installing.resolve({ kind: 'up-to-date', version: 'v2' });
    while ((await readdir(rig.directory)).includes('page'));
  });

  test('half sent, or too slow, leaves nothing', async () => {
    await rig.serve(rig.withPassword, { fileIdleMs: 200 });
    const { cookie, token } = await rig.login();
    const headers = {
      host: `127.0.0.1:${rig.port}`,
      ...rig.own,
      cookie,
      'x-page-token': token,
      'content-length': '100',
    };
    for (const isSlow of [true, false]) {
      const request = httpRequest({ port: rig.port, path: '/file?name=x', method: 'POST', headers });
      const failed = once(request, 'error');
      request.write('half');
      if (!isSlow) request.once('socket', () => void request.destroy());
      await failed;
      while ((await readdir(rig.directory)).includes('page'));
    }
    expect(rig.asked).not.toContain('install');
    let { status } = await send({ cookie, token }, Buffer.from('x'));
    while (status === 409) ({ status } = await send({ cookie, token }, Buffer.from('x'))); // not let go of yet
    expect(status).toBe(200);
  });

  test('larger than the room there is leaves nothing', async () => {
    await rig.serve(rig.withPassword, { minFreeBytes: Number.MAX_SAFE_INTEGER });
    const session = await rig.login();
    expect(await send(session, Buffer.from('x'))).toMatchObject({ status: 413 });
    expect(rig.asked).not.toContain('install');
    expect(await readdir(rig.directory)).toEqual(['password']);
  });
});

describe('viewers', () => {
  async function follow(headers: OutgoingHttpHeaders = {}, localAddress = '127.0.0.1'): Promise<IncomingMessage> {
    const where = { host: '127.0.0.1', port: rig.port, localAddress };
    const request = httpRequest({ ...where, path: '/events', headers: { host: '127.0.0.1', ...headers } });
    request.end();
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    rig.stack.defer(() => void response.destroy());
    return response;
  }

  test('are updated from one status for all', async () => {
    await rig.serve();
    const viewers = await Promise.all(Array.from({ length: 50 }, async () => follow()));
    const heads = await Promise.all(
      viewers.map(async (viewer) => {
        let text = '';
        for await (const chunk of viewer as AsyncIterable<Buffer>) {
          text += chunk.toString('utf8');
          if (text.includes('event: log\n')) break;
        }
        return text;
      }),
    );
    expect(heads.every((text) => text.includes('event: state\ndata: <div class="state good">'))).toBe(true);
    expect(rig.agent.calls.filter(([name]) => name === 'status').length).toBeLessThan(10);
  });

  // Regression: one client held all 50 streams, and the page of everyone else was frozen.
  test('beyond the bound take the place of the oldest one of the address that has the most', async () => {
    await rig.serve({}, { maxViewers: 3 });
    const other = await follow({}, '127.0.0.2');
    const [first, second] = [await follow(), await follow()];
    const ended = once(first.resume(), 'end');
    expect((await follow({}, '127.0.0.3')).statusCode).toBe(200);
    await ended;
    const next = once(second.resume(), 'end');
    expect([await follow(), await follow()].map(({ statusCode }) => statusCode)).toEqual([200, 200]);
    await next;
    expect(other.closed).toBe(false);
  });

  test('hear nothing more when their session has ended', async () => {
    await rig.serve(rig.withPassword, { aliveMs: 20 });
    const { cookie, token } = await rig.login();
    const [one, other] = [await follow({ cookie }), await follow({ cookie: (await rig.login()).cookie })];
    const ended = once(one.resume(), 'end');
    await rig.post('/logout', `token=${token}`, { cookie });
    await ended;
    let heard = '';
    for await (const chunk of other as AsyncIterable<Buffer>) {
      heard = chunk.toString('utf8');
      if (heard.includes(': alive')) break;
    }
    expect(heard).toContain(': alive');
  });

  test('that do not read are dropped, without waiting for them', async () => {
    const long = { ...(await fakeAgent().sensors({}, forever)) };
    let round = 0;
    rig.answerWith({
      sensors: async () => ({
        ...long,
        sensors: Array.from({ length: 100 }, (_, at) => ({
          ...long.sensors[0],
          name: `${(round += 1)} ${at} ${'x'.repeat(900)}`,
        })) as never,
      }),
    });
    await rig.serve({}, { sampleMs: 5, freshMs: 0, maxBacklogBytes: 600_000 });
    const silent = connect(rig.port, '127.0.0.1');
    silent.write('GET /events HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n');
    silent.pause();
    rig.stack.defer(() => void silent.destroy());
    const ended = once(silent, 'close');
    const other = await follow();
    let heard = 0;
    for await (const chunk of other as AsyncIterable<Buffer>) {
      heard += chunk.byteLength;
      if (heard > 30_000_000) break;
    }
    silent.resume();
    await ended;
    expect(await rig.ask('/')).toMatchObject({ status: 200 });
  });
});

describe('who never ends asking', () => {
  /** Returns the replies to another client after each of them. */
  async function answersBeside(first: string): Promise<ReadonlySet<number | undefined>> {
    const answers = new Set<number | undefined>();
    for (let count = 0; count < 12; count += 1) {
      const stranger = connect(rig.port, '127.0.0.1').on('error', () => {});
      rig.stack.defer(() => void stranger.destroy());
      await once(stranger, 'connect');
      stranger.write(first);
      answers.add((await rig.ask('/')).status);
    }
    return answers;
  }

  test('a form gives way to the next', async () => {
    await rig.serve(rig.withPassword, { maxConnections: 8, maxWaiting: 4 });
    const { host, origin } = rig.own;
    const form = 'content-type: application/x-www-form-urlencoded\r\ncontent-length: 100';
    const first = `POST /login HTTP/1.1\r\nhost: ${String(host)}\r\norigin: ${String(origin)}\r\n${form}\r\n\r\n`;
    expect(await answersBeside(first)).toEqual(new Set([200]));
  });

  // Regression: on a Unix socket 5,000 connections stayed open before their handshake.
  test.each(['127.0.0.1', 'a Unix socket'])('a TLS handshake at %s gives way to the next', async (place) => {
    await using authority = await Authority.create();
    const { certFile: certificateFile, keyFile } = await authority.issue('server', 'DNS:localhost');
    const path = place === '127.0.0.1' ? undefined : join(rig.directory, 'page.sock');
    const limits = { maxConnections: 8, maxWaiting: 4, headersMs: 3_600_000 };
    await rig.serve({ certificateFile, keyFile }, limits, path);
    const where = path === undefined ? { host: '127.0.0.1', port: rig.port } : { socketPath: path };
    const tls = { ca: await readFile(authority.caFile), servername: 'localhost' };
    const headers = { host: '127.0.0.1' };
    const viewing = httpsRequest({ ...where, ...tls, path: '/events', headers }).end();
    const [viewer] = (await once(viewing, 'response')) as [IncomingMessage];
    rig.stack.defer(() => void viewer.destroy());
    const strangers: Socket[] = [];
    for (let count = 0; count < 12; count += 1) {
      const stranger = connect(path === undefined ? { port: rig.port } : { path }).on('error', () => {});
      rig.stack.defer(() => void stranger.destroy());
      await once(stranger, 'connect');
      stranger.write('\x16\x03\x01');
      strangers.push(stranger);
      const socketPath = path === undefined ? {} : { socketPath: path };
      expect(await rig.ask('/', { tls, headers, ...socketPath })).toMatchObject({ status: 200 });
    }
    await Promise.all(strangers.slice(0, 8).map(async (stranger) => stranger.closed || once(stranger, 'close')));
    expect(viewer.closed).toBe(false);
  });
});

test('an address that takes all connections keeps no other address out', async () => {
  await rig.serve({}, { maxConnections: 4, maxWaiting: 4 });
  for (let count = 0; count < 8; count += 1) {
    const stranger = connect(rig.port, '127.0.0.1').on('error', () => {});
    rig.stack.defer(() => void stranger.destroy());
    stranger.write('GET /events HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n');
    await Promise.race([once(stranger, 'data'), once(stranger, 'close')]);
  }
  expect(await rig.ask('/', { localAddress: '127.0.0.2' })).toMatchObject({ status: 200 });
});

describe('a place', () => {
  test('may be a Unix socket for the group', async () => {
    const path = join(rig.directory, 'page.sock');
    await rig.serve({}, {}, path);
    expect((await stat(path)).mode & 0o777).toBe(0o660);
    expect(await rig.ask('/', { socketPath: path, headers: { host: 'localhost' } })).toMatchObject({ status: 200 });
    expect(await rig.ask('/', { socketPath: path, headers: { host: 'gw.example.com' } })).toMatchObject({
      status: 421,
    });
  });

  test('that is in use is reported', async () => {
    await rig.serve();
    await expect(rig.serve()).rejects.toMatchObject({ code: 'page-unavailable' });
  });

  test('over TLS is for who has a certificate, who needs no password; its forms work', async () => {
    await using authority = await Authority.create();
    await using strangers = await Authority.create();
    const [server, client, stranger] = [
      await authority.issue('server', 'IP:127.0.0.1'),
      await authority.issue('technician', 'DNS:technician'),
      await strangers.issue('technician', 'DNS:technician'),
    ];
    const files = { certificateFile: server.certFile, keyFile: server.keyFile, clientCaFile: authority.caFile };
    await rig.serve({ ...files, allowOperations: true });
    const ca = await readFile(authority.caFile);
    const tls = { ca, cert: client.cert, key: client.key };
    const { text, status } = await rig.ask('/', { tls });
    expect(status).toBe(200);
    const token = /name="token" value="([\w-]+)"/.exec(text)?.[1] ?? '';
    const headers = { ...rig.own, origin: `https://127.0.0.1:${rig.port}` };
    const body = `operation=resume&token=${token}`;
    expect(await rig.ask('/do', { method: 'POST', tls, headers, body })).toMatchObject({ status: 303 });
    expect(rig.asked).toContain('resume');
    await expect(rig.ask('/', { tls: { ca } })).rejects.toThrow(/alert|reset|hang up/i);
    await expect(rig.ask('/', { tls: { ca, cert: stranger.cert, key: stranger.key } })).rejects.toThrow(
      /alert|reset|hang up/i,
    );
  });

  test('over TLS has a cookie that no other name of its domain can set', async () => {
    await using authority = await Authority.create();
    const { certFile: certificateFile, keyFile } = await authority.issue('server', 'IP:127.0.0.1');
    await rig.serve({ ...rig.withPassword, certificateFile, keyFile });
    const tls = { ca: await readFile(authority.caFile) };
    const headers = { ...rig.own, origin: `https://127.0.0.1:${rig.port}` };
    const answered = await rig.ask('/login', { method: 'POST', tls, headers, body: `password=${PASSWORD}` });
    const set = answered.headers['set-cookie']?.[0] ?? '';
    expect(set).toMatch(/^__Host-thing-agent-page=[\w-]+; HttpOnly; SameSite=Strict; Path=\/; Secure$/);
    const [own = ''] = set.split(';');
    const cookie = `thing-agent-page=tossed; ${own}`;
    expect((await rig.ask('/', { tls, headers: { cookie } })).text).toContain('All is well');
  });
});
