import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';

import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { Browser } from './browser.ts';
import type { Tab } from './browser.ts';
import { pageGateway } from './page-gateway.ts';
import type { PageGateway } from './page-gateway.ts';

let stack: AsyncDisposableStack;
let browser: Browser;
let site: PageGateway;

beforeAll(async () => {
  stack = new AsyncDisposableStack();
  browser = stack.use(await Browser.start());
  site = stack.use(await pageGateway());
  await site.gateway.startDaemon();
});
afterAll(async () => {
  await stack.disposeAsync();
});

/** For whoever wants to look at the page: PAGE_SHOTS=DIR. */
async function shoot(tab: Tab, name: string): Promise<void> {
  const folder = process.env['PAGE_SHOTS'];
  if (folder !== undefined) await writeFile(join(folder, `${name}.png`), await tab.screenshot());
}

describe('a browser', () => {
  test('shows how the gateway is, and asks nobody else', async () => {
    const tab = await browser.open();
    await tab.screen(360, 740);
    await tab.visit(site.url);
    await tab.until(`document.querySelector('[data-note]').textContent.startsWith('Live')`);
    expect(await tab.evaluate(`document.querySelector('h2').textContent`)).toBe('Facts');
    expect(await tab.evaluate(`document.documentElement.scrollWidth`)).toBe(360);
    await shoot(tab, 'telephone');
    const elsewhere = tab.requests.filter((url) => !url.startsWith(site.url) && url !== 'about:blank');
    expect(elsewhere).toEqual([]);
    expect(tab.complaints).toEqual([]);
  });
});
