import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { nextStepOf } from '../../../src/control/presentation/next-step.ts';
import type { StatusReport } from '../../../src/control/reports.ts';
import { readForm } from '../../../src/web/show/forms.ts';
import { calmStatus, troubledStatus } from '../cli/fake-operations.ts';
import { PageRig } from './page-rig.ts';

let rig: PageRig;

beforeEach(async () => {
  rig = await PageRig.create();
});
afterEach(async () => {
  await rig[Symbol.asyncDispose]();
});

describe('a client', () => {
  test('receives a page that must not be cached, framed or mixed with others', async () => {
    await rig.serve();
    const { status, headers, text } = await rig.ask('/');
    expect(status).toBe(200);
    expect(text).toContain('gateway-1.4.2 is running. All is well.');
    expect(headers).toMatchObject({
      'content-security-policy': expect.stringMatching(/^default-src 'none'; .*frame-ancestors 'none'/) as unknown,
      'x-frame-options': 'DENY',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'same-origin',
      'cache-control': 'no-store',
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-resource-policy': 'same-origin',
      'cross-origin-embedder-policy': 'require-corp',
    });
    expect(headers).not.toHaveProperty('access-control-allow-origin');
  });

  test.each([
    ['/nothing', {}, 404],
    ['/../../etc/passwd', {}, 404],
    ['/', { method: 'DELETE' }, 405],
    ['/events', { method: 'HEAD' }, 405],
    ['/', { headers: { host: 'evil.example.com' } }, 421],
    ['/events', { headers: { host: `127.0.0.1.evil.example.com:8077` } }, 421],
    ['/page.js', { headers: { host: '[::1' } }, 421],
    ['/', { headers: { host: 'gateway.example.com:81' } }, 200],
    ['/', { headers: { host: 'LOCALHOST:9000' } }, 200],
    ['/page.css?x=1', {}, 200],
    ['/?said', { method: 'HEAD' }, 200],
  ] as const)('for %s with %j gets %i', async (path, asked, status) => {
    await rig.serve({ hosts: ['gateway.example.com'] });
    expect(await rig.ask(path, asked)).toMatchObject({ status });
  });

  test('concurrent requests cost one status', async () => {
    await rig.serve();
    await Promise.all(Array.from({ length: 20 }, async () => rig.ask('/')));
    expect(rig.agent.calls.filter(([name]) => name === 'status')).toHaveLength(1);
  });
});

describe('an order', () => {
  const hold = 'operation=hold&duration=4h&reason=works';

  test('is done for who gave the password, with the token of his page, and is logged', async () => {
    await rig.serve(rig.withPassword);
    const { cookie, token } = await rig.login();
    const headers = { ...rig.own, cookie };
    const answered = await rig.ask('/do', { method: 'POST', headers, body: `${hold}&token=${token}` });
    expect(answered).toMatchObject({ status: 303, headers: { location: './' } });
    expect(rig.agent.calls).toContainEqual(['hold', { durationMs: 14_400_000, reason: 'works' }]);
    expect(rig.log.lines.join('\n')).toContain(
      'request from the web UI {"caller":"operators","page":true,"operation":"hold"}',
    );
    expect((await rig.ask('/', { headers: { cookie } })).text).toContain(
      'role="status" tabindex="-1" autofocus>Updates are on hold',
    );
    expect((await rig.ask('/', { headers: { cookie } })).text).not.toContain('autofocus');
  });

  // Regression: the version was the one that the status named when the form arrived.
  test('unblocks the version that the page showed, and shows both results', async () => {
    let status: StatusReport = { ...troubledStatus, toDo: nextStepOf(troubledStatus) };
    const unblock = async (): Promise<{ versions: string[] }> => ({ versions: ['gateway-1.5.0'] });
    rig.answerWith({ status: async () => status, unblock });
    await rig.serve(rig.withPassword);
    const { cookie, token } = await rig.login();
    const headers = { ...rig.own, cookie };
    const [, shown] = /name="version" value="([^"]+)"/.exec((await rig.ask('/', { headers: { cookie } })).text) ?? [];
    expect(shown).toBe(troubledStatus.quarantine[0]?.digest);
    status = calmStatus;
    const body = `operation=unblock&version=${shown}&token=${token}`;
    await rig.ask('/do', { method: 'POST', headers, body });
    expect(rig.agent.calls).toContainEqual(['unblock', { version: shown }]);
    expect((await rig.ask('/', { headers: { cookie } })).text).toContain(
      'gateway-1.5.0 may be installed again. Nothing to do',
    );
  });

  // Regression: the gateway rolled back to the version that was the previous one when the form arrived.
  test('rolls back only to the version that the page showed', async () => {
    let status: StatusReport = calmStatus;
    rig.answerWith({ status: async () => status });
    await rig.serve(rig.withPassword);
    const { cookie, token } = await rig.login();
    const rollBack = async () => {
      const page = (await rig.ask('/', { headers: { cookie } })).text;
      const [, versions = ''] = /name="versions" value="([^"]+)"/.exec(page) ?? [];
      const form = { operation: 'rollback', confirm: 'yes', token, versions };
      return async () =>
        rig.ask('/do', {
          method: 'POST',
          headers: { ...rig.own, cookie },
          body: new URLSearchParams(form).toString(),
        });
    };
    const sendOld = await rollBack();
    const previous = { versionName: 'other', versionId: undefined, digest: 'sha256:1', slot: undefined, at: '' };
    // Regression: no rollback was possible from a name with an invisible character, which the page escapes.
    const running = { version: '2.0-\u26a0\ufe0f', slot: 'A', isOnTrial: false, isFactory: false } as const;
    status = { ...calmStatus, running, previous: { ...previous, signedBy: undefined } };
    const refused = await sendOld();
    expect(refused).toMatchObject({ status: 409 });
    expect(refused.text).toContain('The versions have changed');
    expect(rig.asked).not.toContain('rollback');
    const sendNew = await rollBack();
    expect(await sendNew()).toMatchObject({ status: 303 });
    expect(rig.asked).toContain('rollback');
  });

  test.each([
    ['of another origin', { origin: 'http://evil.example.com' }],
    ['of another port', { origin: 'http://127.0.0.1:1' }],
    ['of a page without an origin', { origin: 'null' }],
    ['of another site', { 'sec-fetch-site': 'cross-site' }],
    ['of the same site', { 'sec-fetch-site': 'same-site' }],
    ['of nobody', { origin: undefined, 'sec-fetch-site': undefined }],
    ['without a cookie', { cookie: undefined }],
    ['with the cookie of another', { cookie: 'thing-agent-page=x' }],
    ['that is no form', { 'content-type': 'text/plain' }],
  ])('%s is refused', async (_what, more) => {
    await rig.serve(rig.withPassword);
    const { cookie, token } = await rig.login();
    const all = Object.entries({ ...rig.own, cookie, ...more }).filter(([, value]) => value !== undefined);
    const { status } = await rig.ask('/do', {
      method: 'POST',
      headers: Object.fromEntries(all) as OutgoingHttpHeaders,
      body: `${hold}&token=${token}`,
    });
    expect([403, 415]).toContain(status);
    expect(rig.asked).not.toContain('hold');
  });

  test.each([
    ['with the scheme of another page', undefined, 403],
    ['with the scheme of a web server in front, as the browser confirms', 'same-origin', 303],
  ])('%s', async (_what, site, expected) => {
    await rig.serve(rig.withPassword);
    const { cookie, token } = await rig.login();
    const { 'sec-fetch-site': _site, ...own } = rig.own;
    const headers = {
      ...own,
      cookie,
      origin: `https://127.0.0.1:${rig.port}`,
      ...(site && { 'sec-fetch-site': site }),
    };
    const { status } = await rig.ask('/do', { method: 'POST', headers, body: `${hold}&token=${token}` });
    expect(status).toBe(expected);
  });

  test.each([
    ['without a token', hold],
    ['with the token of another', `${hold}&token=x`],
  ])('%s is refused', async (_what, body) => {
    await rig.serve(rig.withPassword);
    const { cookie } = await rig.login();
    expect(await rig.ask('/do', { method: 'POST', headers: { ...rig.own, cookie }, body })).toMatchObject({
      status: 403,
    });
    expect(rig.asked).not.toContain('hold');
  });

  test('is refused where the page is for looking only, and there is nothing to press', async () => {
    await rig.serve({ ...rig.withPassword, allowOperations: false });
    const { cookie, token } = await rig.login();
    expect((await rig.ask('/', { headers: { cookie } })).text).not.toContain('action="do"');
    const headers = { ...rig.own, cookie };
    expect(await rig.ask('/do', { method: 'POST', headers, body: `${hold}&token=${token}` })).toMatchObject({
      status: 403,
    });
    expect(
      await rig.ask('/file?name=x', { method: 'POST', headers: { ...headers, 'x-page-token': token } }),
    ).toMatchObject({
      status: 403,
    });
  });

  test('that is too long is refused', async () => {
    await rig.serve(rig.withPassword);
    const { cookie } = await rig.login();
    const headers = { ...rig.own, cookie };
    expect(await rig.ask('/do', { method: 'POST', headers, body: 'x'.repeat(10_000) })).toMatchObject({ status: 413 });
  });

  test('of a client that disconnects while sending causes no problem', async () => {
    const gone = new PassThrough();
    const form = readForm(Object.assign(gone, { headers: rig.own }) as never, { maxFormBytes: 100, formMs: 10_000 });
    gone.destroy(new Error('aborted'));
    await expect(form).rejects.toMatchObject({ status: 400 });
  });

  test('that never ends is not waited for', async () => {
    await rig.serve(rig.withPassword, { formMs: 30 });
    const slow = httpRequest({
      port: rig.port,
      path: '/login',
      method: 'POST',
      headers: { host: `127.0.0.1:${rig.port}`, ...rig.own },
    });
    slow.write('password=');
    const [response] = (await once(slow, 'response')) as [IncomingMessage];
    expect(response.statusCode).toBe(408);
    response.destroy();
  });
});

describe('the password', () => {
  test('is required before anything is shown, also for live updates', async () => {
    await rig.serve(rig.withPassword);
    expect((await rig.ask('/')).text).not.toMatch(/GW-0001|gateway-1/);
    expect(await rig.ask('/events')).toMatchObject({ status: 403 });
    expect(await rig.ask('/login', { method: 'POST', headers: rig.own, body: 'password=guess' })).toMatchObject({
      status: 403,
    });
    expect(rig.refusedLogins).toEqual(['the page was given a wrong password, from 127.0.0.1']);
    expect(rig.log.lines.join('\n')).not.toContain('guess');
  });

  test('opens a session that ends with it, or with who leaves', async () => {
    await rig.serve(rig.withPassword);
    const { cookie, token } = await rig.login();
    expect((await rig.ask('/', { headers: { cookie } })).text).toContain('GW-0001');
    const headers = { ...rig.own, cookie };
    expect(await rig.ask('/logout', { method: 'POST', headers, body: `token=${token}` })).toMatchObject({
      status: 303,
    });
    expect((await rig.ask('/', { headers: { cookie } })).text).not.toContain('GW-0001');
  });

  test('is refused where it is short, or others may write its file', async () => {
    await writeFile(join(rig.directory, 'short'), 'short');
    await expect(rig.serve({ passwordFile: join(rig.directory, 'short') })).rejects.toMatchObject({
      code: 'web-files-invalid',
    });
    await expect(rig.serve({ passwordFile: join(rig.directory, 'none') })).rejects.toMatchObject({
      code: 'web-files-invalid',
    });
  });
});
