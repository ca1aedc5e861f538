import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import type { IncomingMessage } from 'node:http';
import { connect, createServer } from 'node:net';

import { beforeEach, expect, onTestFinished, test } from 'vitest';

import type { StatusReport } from '../../../src/control/reports.ts';
import { stop } from '../../fakes/machine/file-gateway.ts';
import { freePort } from '../../fakes/machine/free-port.ts';
import { untilTestEnds } from '../../until-test-ends.ts';
import { pageGateway, PASSWORD } from './page-gateway.ts';
import type { PageGateway } from './page-gateway.ts';

let site: PageGateway;

beforeEach(async () => {
  site = untilTestEnds(await pageGateway({}));
});

async function statusOf(url: string): Promise<number> {
  return (await fetch(url)).status;
}

test('fifty viewers, and more who read nothing, do not block the agent’s sockets', async () => {
  await site.gateway.startDaemon();
  const follow = async (): Promise<IncomingMessage> => {
    const request = httpRequest(new URL('events', site.url));
    request.end();
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    onTestFinished(() => void response.destroy());
    return response;
  };
  const viewers = await Promise.all(Array.from({ length: 49 }, follow));
  for (let silent = 0; silent < 100; silent += 1) {
    const socket = connect(site.port, '127.0.0.1');
    socket.on('error', () => {});
    if (silent === 0) socket.write(`GET /events HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n`);
    socket.pause();
    onTestFinished(() => void socket.destroy());
  }
  for (const viewer of viewers) viewer.resume();
  for (let look = 0; look < 5; look += 1) {
    expect(await site.gateway.json('status')).toMatchObject({ daemon: true });
  }
  expect(await site.gateway.run('web')).toMatchObject({
    exitCode: 0,
    stdout: expect.stringContaining(site.url) as unknown,
  });
  expect(await statusOf(site.url)).toBe(200);
});

test('a port that is taken is a warning, and a reload moves the page', async () => {
  const taken = createServer().listen(site.port, '127.0.0.1');
  await once(taken, 'listening');
  const lines: string[] = [];
  let onLine = (): void => {};
  const until = async (text: string): Promise<void> => {
    while (!lines.some((line) => line.includes(text))) await new Promise<void>((resolve) => (onLine = resolve));
  };
  const daemon = await site.gateway.startDaemon((line) => {
    lines.push(line);
    onLine();
  });
  const { warnings } = (await site.gateway.json('status')) as StatusReport;
  expect(warnings.filter((warning) => warning.includes('web UI'))).toEqual([expect.stringContaining('EADDRINUSE')]);
  expect(await site.gateway.run('web')).toMatchObject({ exitCode: 70 });
  const elsewhere = await freePort();
  const config = await readFile(site.gateway.configFile, 'utf8');
  await writeFile(site.gateway.configFile, config.replace(`127.0.0.1:${site.port}`, `127.0.0.1:${elsewhere}`));
  daemon.kill('SIGHUP');
  await until('web UI available');
  expect(await statusOf(`http://127.0.0.1:${elsewhere}/`)).toBe(200);
  await until('the configuration was read again');
  expect((await site.gateway.json('status')) as StatusReport).toMatchObject({
    warnings: expect.not.arrayContaining([expect.stringContaining('page')]) as unknown,
  });
  taken.close();
});

test('an operator rolls back in the web UI: the gateway starts the previous version, the factory image', async () => {
  await using own = await pageGateway({ operate: true });
  const daemon = await own.gateway.startDaemon();
  expect(own.gateway.booted).toBe('B');
  const origin = new URL(own.url).origin;
  const send = async (path: string, form: Record<string, string>, cookie = ''): Promise<Response> =>
    fetch(new URL(path, own.url), {
      method: 'POST',
      body: new URLSearchParams(form),
      headers: { origin, cookie },
      redirect: 'manual',
    });
  const [cookie = ''] = ((await send('login', { password: PASSWORD })).headers.get('set-cookie') ?? '').split(';');
  const page = await (await fetch(own.url, { headers: { cookie } })).text();
  expect(page).toContain('Yes, roll back to the factory image');
  const [, token = ''] = /name="token" value="([^"]+)"/.exec(page) ?? [];
  const [, versions = ''] = /name="versions" value="([^"]+)"/.exec(page) ?? [];
  const asked = own.gateway.rebootRequest(AbortSignal.timeout(60_000));
  expect((await send('do', { token, operation: 'rollback' }, cookie)).status).toBe(400);
  expect((await send('do', { token, operation: 'rollback', confirm: 'yes', versions }, cookie)).status).toBe(303);
  await asked;
  await stop(daemon);
  expect(own.gateway.boot()).toBe('A');
});
