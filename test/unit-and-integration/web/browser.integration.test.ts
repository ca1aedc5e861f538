import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import process from 'node:process';

import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { testInFull } from '../../full-run.ts';
import { howMuch } from '../../full.ts';
import { Browser } from './browser.ts';
import type { Tab } from './browser.ts';
import { pageGateway, PASSWORD, release } from './page-gateway.ts';
import type { PageGateway } from './page-gateway.ts';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
/** Slow enough for a bar to be seen on its way. */
const slowly = { kind: 'drip', bytes: 128 * 1024, everyMs: 20 } as const;

let stack: AsyncDisposableStack;
let browser: Browser;
let site: PageGateway;
let attacker: string;
let evilPage = '';

beforeAll(async () => {
  stack = new AsyncDisposableStack();
  browser = stack.use(await Browser.start());
  site = stack.use(await pageGateway({ operate: true }));
  await site.gateway.startDaemon();
  const server = createServer(
    (_request, response) => void response.setHeader('content-type', 'text/html').end(evilPage),
  );
  stack.defer(() => void server.close());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  attacker = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
});
afterAll(async () => {
  await stack.disposeAsync();
});

/** Saves screenshots of the page: PAGE_SHOTS=DIR. */
async function shoot(tab: Tab, name: string): Promise<void> {
  const folder = process.env['PAGE_SHOTS'];
  if (folder !== undefined) await writeFile(join(folder, `${name}.png`), await tab.screenshot());
}

/** Returns the findings of an accessibility tool. */
async function findings(tab: Tab): Promise<readonly string[]> {
  await tab.evaluate(`${axe}; 0`);
  return tab.evaluate(
    `axe.run().then(({ violations }) => violations.map(({ id, nodes }) => id + ': ' + nodes[0].html))`,
  );
}

async function loggedIn(): Promise<Tab> {
  const tab = await browser.open();
  await tab.screen(1280, 800);
  await tab.visit(site.url);
  await tab.type('#password', PASSWORD);
  await tab.loaded(async () => tab.press('Enter', 'Enter', '\r'));
  await tab.until(`document.querySelector('[data-note]')?.textContent.startsWith('Live')`);
  return tab;
}

/** Presses Tab until that element has the focus. */
async function tabTo(tab: Tab, text: string): Promise<void> {
  for (let step = 0; step < 40; step += 1) {
    await tab.press('Tab');
    if ((await tab.evaluate<string>(`document.activeElement.textContent.trim()`)) === text) return;
  }
  throw new Error(`no way to ${text}`);
}

const textOf = async (tab: Tab, selector: string): Promise<string> =>
  tab.evaluate(`document.querySelector(${JSON.stringify(selector)}).textContent.trim()`);

describe('the page', () => {
  test('asks for the password, and shows nothing before; a wrong one is a security event', async () => {
    await using tab = await browser.open();
    await tab.screen(360, 740);
    await tab.visit(site.url);
    expect(await tab.evaluate(`document.body.innerText`)).not.toContain('GW-0001');
    expect(await findings(tab)).toEqual([]);
    await shoot(tab, 'login');
    await tab.type('#password', 'not the password');
    await tab.loaded(async () => tab.press('Enter', 'Enter', '\r'));
    expect(await textOf(tab, '[role=alert]')).toBe('That is not the password.');
    const { events } = (await site.gateway.json('log', '--security')) as {
      events: readonly { id: string; detail: string }[];
    };
    expect(events.filter(({ id }) => id === 'login-rejected').map(({ detail }) => detail)).toEqual([
      'the page was given a wrong password, from 127.0.0.1',
    ]);
  });

  const windows = [
    [360, 740, 'light'],
    [1280, 800, 'dark'],
    [360, 740, 'dark'],
    [1280, 800, 'light'],
  ] as const;

  test.each(windows.slice(0, howMuch(windows.length, 2)))(
    'reads well on %i × %i, %s',
    async (width, height, scheme) => {
      await using tab = await loggedIn();
      await tab.screen(width, height, scheme);
      await tab.evaluate(`document.querySelectorAll('details').forEach((it) => { it.open = true })`);
      expect(await findings(tab)).toEqual([]);
      expect(
        await tab.evaluate(
          `[...document.querySelectorAll('body *')].filter((it) => it.getBoundingClientRect().right > ${width}).map((it) => it.outerHTML.slice(0, 120))`,
        ),
      ).toEqual([]);
      const titles = await tab.evaluate(`[...document.querySelectorAll('h2')].map((it) => it.textContent)`);
      expect(titles).toEqual(['Actions', 'Slots', 'Boards', 'Sensors', 'Details', 'History', 'Security log']);
      const lefts = await tab.evaluate<number>(
        `new Set([...document.querySelectorAll('.columns > div')].map((it) => it.getBoundingClientRect().left)).size`,
      );
      expect(lefts).toBe(width >= 1280 ? 2 : 1);
      expect(await textOf(tab, '.sensors li:last-child h3')).toContain('door <b>');
      await shoot(tab, `${width}-${scheme}`);
    },
  );

  test('is read without JavaScript', async () => {
    await using tab = await loggedIn();
    await tab.send('Emulation.setScriptExecutionDisabled', { value: true });
    await tab.visit(site.url);
    await tab.send('Emulation.setScriptExecutionDisabled', { value: false });
    expect(await textOf(tab, 'h1')).toMatch(/\.$/);
    expect(await textOf(tab, '[data-note]')).toMatch(/^As of \d{4}-/);
    expect(await tab.evaluate(`document.querySelector('noscript meta, meta[http-equiv=refresh]').content`)).toBe('30');
  });

  test('can be used with the keyboard: check, hold, resume', async () => {
    await using tab = await loggedIn();
    await tabTo(tab, 'Check for updates');
    await tab.loaded(async () => tab.press('Enter', 'Enter', '\r'));
    expect(await textOf(tab, '.result')).toMatch(/^(Nothing to do: v1 is installed|Started )/);
    await tab.until(`!document.querySelector('[data-can=update]').hidden`);
    await tabTo(tab, 'Hold updates');
    await tab.press('Enter', 'Enter', '\r');
    await tabTo(tab, 'Hold');
    await tab.loaded(async () => tab.press('Enter', 'Enter', '\r'));
    expect(await textOf(tab, '.result')).toMatch(/^Updates are on hold until .* \(in (4 h|3 h 59 min)\)\.$/);
    expect(await textOf(tab, 'h1')).toBe('v1 is running.');
    // a check that still runs is shown first
    await tab.until(`document.querySelector('.matter').textContent.trim().startsWith('Updates are on hold ')`);
    expect(await textOf(tab, '.to-do')).toBe('To do: wait, or resume updates: agent resume');
    await shoot(tab, 'held');
    expect(await textOf(tab, '.step div:not([hidden])')).toBe('Resume updates');
    await tabTo(tab, 'Resume updates');
    await tab.loaded(async () => tab.press('Enter', 'Enter', '\r'));
    expect(await textOf(tab, '.result')).toBe('Updates resume at the next check.');
  });

  test('takes a file that is dropped, and installs it; its bar moves with an update', async () => {
    await using tab = await loggedIn();
    const bytes = (await release('v3 <b>', 100_000)).toString('base64');
    await tab.evaluate(`{
      const bytes = Uint8Array.from(atob('${bytes}'), (letter) => letter.charCodeAt(0));
      const dropped = new DataTransfer();
      dropped.items.add(new File([bytes], 'v3.artifact'));
      document.body.dispatchEvent(new DragEvent('drop', { dataTransfer: dropped, bubbles: true, cancelable: true }));
    }`);
    await tab.until(`document.activeElement.textContent === 'Install'`);
    await shoot(tab, 'dropped');
    await tab.loaded(async () => tab.press('Enter', 'Enter', '\r'));
    await tab.until(`document.querySelector('.matter').textContent.includes('staged')`);
    await tab.until(`document.querySelector('.history li')?.textContent.includes('v3 <b>')`);
    expect(await textOf(tab, '.history li')).toContain('v3 <b>');
    await shoot(tab, 'installed');
    await tab.until(`document.querySelector('.step div:not([hidden])')?.textContent.trim() === 'Reboot now'`);
    await tab.until(`document.querySelector('.to-do')?.textContent.trim() === 'To do: agent reboot'`);
    await tab.loaded(async () => tab.evaluate(`document.querySelector('.step div:not([hidden]) button').click()`));
    expect(await textOf(tab, '.result')).toMatch(/rebooting/i);
    expect(site.gateway.rebootRequested).toBe(true);
  });

  test('runs diagnostics, and shows each result to this operator', async () => {
    await using tab = await loggedIn();
    await tabTo(tab, 'Run diagnostics');
    await tab.loaded(async () => tab.press('Enter', 'Enter', '\r'));
    expect(
      await tab.evaluate(`document.querySelectorAll('[aria-labelledby=title-diagnostics] tbody tr').length`),
    ).toBeGreaterThan(5);
    expect(await textOf(tab, '[aria-labelledby=title-diagnostics] tbody')).toContain('configuration');
    expect(await findings(tab)).toEqual([]);
    await shoot(tab, 'diagnostics');
  });

  test('downloads a support bundle, but not for another page', async () => {
    await using tab = await loggedIn();
    const download = (token: string): string => `(async () => {
      const body = new URLSearchParams({ token: ${token} });
      const reply = await fetch('support-bundle', { method: 'POST', body });
      const bytes = new Uint8Array(await reply.arrayBuffer());
      return [reply.status, reply.headers.get('content-disposition'), [...bytes.slice(0, 2)]];
    })()`;
    expect(await tab.evaluate(download(`document.querySelector('[name=token]').value`))).toEqual([
      200,
      'attachment; filename="support-bundle.tar.gz"',
      [0x1f, 0x8b],
    ]);
    expect(await tab.evaluate(download(`'guessed'`))).toEqual([403, null, expect.anything()]);
    tab.complaints.length = 0; // the console reports the refusal
  });

  testInFull('shows an update in progress', async () => {
    site.service.world.targetVersionId = '2';
    site.service.fail({ operation: 'firmware', fault: slowly });
    await using tab = await loggedIn();
    await tab.evaluate(`{
      window.seen = new Set();
      new MutationObserver(() => seen.add(document.querySelector('[data-part=progress] progress')?.value))
        .observe(document.querySelector('[data-part=progress]'), { childList: true });
    }`);
    const updating = site.gateway.json('--update-now', '--force');
    await tab.until(`seen.size > 4`);
    await shoot(tab, 'busy');
    await updating;
    expect(await tab.evaluate(`[...seen].filter((value) => value > 0 && value < 100).length`)).toBeGreaterThan(1);
  });

  test('shows visibly that its content is outdated', async () => {
    await using tab = await loggedIn();
    const seen = `(() => {
      const { top, bottom } = document.querySelector('[data-note]').getBoundingClientRect();
      return top >= 0 && bottom <= window.innerHeight;
    })()`;
    expect(await tab.evaluate(seen)).toBe(false);
    await tab.evaluate(
      `fetch('logout', { method: 'POST', body: new URLSearchParams(new FormData(document.forms[0])) })`,
    );
    await tab.until(`document.querySelector('[data-note]').textContent.startsWith('Not live')`);
    expect(await tab.evaluate(seen)).toBe(true);
    await shoot(tab, 'stale');
  });
});

describe('another page in the same browser', () => {
  test('cannot send its forms, show it in a frame, or ask for it under another name', async () => {
    await using tab = await loggedIn();
    const asked = `<form method="post" action="${site.url}do"><input name="operation" value="hold"></form>`;
    evilPage = `${asked}<iframe src="${site.url}"></iframe>`;
    await tab.visit(attacker);
    expect(tab.complaints.join('\n')).toContain('frame-ancestors');
    await tab.loaded(async () => tab.evaluate(`document.forms[0].submit()`));
    expect(await textOf(tab, 'h1')).toBe('This request came from another page.');
    expect(await site.gateway.json('status')).not.toHaveProperty('hold');
    await tab.visit(site.url.replace('127.0.0.1', 'gateway.localhost'));
    expect(await textOf(tab, 'body')).toMatch(/^This page is not served under that name/);
  });
});

test('there was no request to another host, and no message in the console', () => {
  const own = (url: string): boolean =>
    [site.url, attacker, 'about:', 'data:'].some((start) => url.startsWith(start)) || url.includes('gateway.localhost');
  expect(browser.tabs.flatMap(({ requests }) => requests).filter((url) => !own(url))).toEqual([]);
  const expected = /frame-ancestors|status of (403|421)|^Autofocus/;
  expect(browser.tabs.flatMap(({ complaints }) => complaints).filter((text) => !expected.test(text))).toEqual([]);
});
