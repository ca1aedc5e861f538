import { expect, test } from 'vitest';

import { idleCodes, stateExitCodes, troubles } from '../../../../src/control/gateway-state.ts';
import { readPage } from '../../../page-examples.ts';
import { rowsOf } from './page-tables.ts';

const page = await readPage('operate.md');

test('the page about operating has each state with its exit code', () => {
  const states = rowsOf(page, '| state | means | exit code |').map(([state, , exit]) => [state, Number(exit)]);
  expect(states).toEqual(Object.entries(stateExitCodes));
});

test('the page about operating says of each code why nothing is being installed', () => {
  const held = rowsOf(page, '| code | because | ends by itself | ended by a person |');
  const others = rowsOf(page, '| code | means |');
  const codes = [...held, ...others].map(([code]) => code);
  expect(codes).toHaveLength(idleCodes.length);
  expect(new Set(codes)).toEqual(new Set(idleCodes));
});

test('the page about operating has each trouble, the worst first', () => {
  expect(rowsOf(page, '| trouble | means | look at |').map(([trouble]) => trouble)).toEqual(troubles);
});
