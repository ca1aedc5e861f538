import { expect, test } from 'vitest';

import { stateCodes } from '../../../../src/control/codes/state-codes.ts';
import { idleCodes, stateExitCodes, problems } from '../../../../src/control/gateway-state.ts';
import { explainCode } from '../../../../src/error-catalogue.ts';
import { readPage } from '../../../page-examples.ts';
import { rowsOf } from './page-tables.ts';

const page = await readPage('operations.md');

test('the operations page lists each state with its exit code', () => {
  const states = rowsOf(page, '| state | means | exit code |').map(([state, , exit]) => [state, Number(exit)]);
  expect(states).toEqual(Object.entries(stateExitCodes));
});

test('the operations page explains each reason code for not installing', () => {
  const held = rowsOf(page, '| code | reason | ends automatically | you can end it |');
  const others = rowsOf(page, '| code | means |');
  const codes = [...held, ...others].map(([code]) => code);
  expect(codes).toHaveLength(idleCodes.length);
  expect(new Set(codes)).toEqual(new Set(idleCodes));
});

test('the operations page lists each problem, the worst first', () => {
  expect(rowsOf(page, '| problem | means | next step |').map(([problem]) => problem)).toEqual(problems);
});

// Regression: `agent explain no-daemon`, a word of this page: "there is no error code no-daemon".
test('each word of the page is explained by the program, too', () => {
  expect([...idleCodes, ...problems].filter((code) => explainCode(code) === undefined)).toEqual([]);
});

test('the operations page quotes the program’s own words', () => {
  const rows = [...rowsOf(page, '| code | means |'), ...rowsOf(page, '| problem | means | next step |')];
  const told = rows.flatMap(([code = '', means = '']) => {
    const meaning = new Map(Object.entries(stateCodes)).get(code)?.means;
    return meaning === undefined
      ? []
      : [{ code, means, meaning: meaning.charAt(0).toLowerCase() + meaning.slice(1, -1) }];
  });
  expect(told.length).toBeGreaterThan(problems.length);
  expect(told.filter(({ means, meaning }) => !means.startsWith(meaning))).toEqual([]);
});
