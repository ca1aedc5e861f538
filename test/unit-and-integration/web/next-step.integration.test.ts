import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { nextStepOf } from '../../../src/control/presentation/next-step.ts';
import type { StatusReport } from '../../../src/control/reports.ts';
import { calmStatus, troubledStatus } from '../cli/fake-operations.ts';
import { Browser } from './browser.ts';
import type { Tab } from './browser.ts';
import { PASSWORD } from './page-gateway.ts';
import { PageRig } from './page-rig.ts';

let browser: Browser;

beforeAll(async () => {
  browser = await Browser.start();
});
afterAll(async () => {
  await browser[Symbol.asyncDispose]();
});

const textOf = async (tab: Tab, selector: string): Promise<string> =>
  tab.evaluate(`document.querySelector(${JSON.stringify(selector)}).textContent.trim()`);

/** Opens the page of a gateway with this status as an operator. */
async function openPage(rig: PageRig, status: StatusReport): Promise<Tab> {
  rig.answerWith({ status: async () => ({ ...status, toDo: nextStepOf(status) }) });
  await rig.serve(rig.withPassword);
  const tab = await browser.open();
  await tab.visit(`http://127.0.0.1:${rig.port}/`);
  await tab.type('#password', PASSWORD);
  await tab.loaded(async () => tab.press('Enter', 'Enter', '\r'));
  return tab;
}

describe('the button in the first card', () => {
  test.each<[button: string, StatusReport, calls: readonly unknown[]]>([
    [
      'Try again',
      troubledStatus,
      [
        ['unblock', { version: troubledStatus.quarantine[0]?.digest }],
        ['update', { reboot: true, force: false }],
      ],
    ],
    ['Commit now', { ...calmStatus, phase: 'trial' }, [['commit', {}]]],
  ])('is %s, and does it', async (button, status, calls) => {
    await using rig = await PageRig.create();
    await using tab = await openPage(rig, status);
    expect(await textOf(tab, '.step div:not([hidden])')).toBe(button);
    await tab.loaded(async () => tab.evaluate(`document.querySelector('.step div:not([hidden]) button').click()`));
    const actions = (): unknown => rig.agent.calls.filter(([name]) => /^(unblock|update|commit)$/.test(name));
    await expect.poll(actions).toEqual(calls);
    expect(await textOf(tab, '.result')).not.toBe('');
  });
});

test.each([
  [undefined, 'GW-0001', 'Thing ID thing-1'],
  ['Pump <b>7</b>', 'Pump <b>7</b>', 'GW-0001, Thing ID thing-1'],
])('the label %j names the gateway %s in header and title', async (label, name, rest) => {
  await using rig = await PageRig.create();
  await using tab = await openPage(rig, { ...calmStatus, ...(label !== undefined && { label }) });
  expect(await textOf(tab, 'header .name')).toBe(name);
  expect(await textOf(tab, 'header p:nth-child(2)')).toBe(rest);
  expect(await tab.evaluate(`document.title`)).toBe(`${name}: gateway-1.4.2 is running. All is well.`);
});
