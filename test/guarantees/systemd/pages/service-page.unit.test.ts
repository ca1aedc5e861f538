import { expect, test } from 'vitest';

import { operations } from '../../../../src/service/operations.ts';
import type { Row } from '../../../../src/service/operations.ts';
import { errorOfStatus } from '../../../../src/service/rest/statuses.ts';
import { serviceSchema } from '../../../../src/service/settings.ts';
import { readPage } from '../../../page-examples.ts';
import { rowsOf } from './page-tables.ts';

const page = await readPage('service-protocol.md');
const keys = { none: 'never', provisioning: 'if there is one', always: 'always' } as const;

test('the page about the service has the operations that the agent speaks, and no other', () => {
  const rows = Object.entries<Row>(operations).map(([name, { method, path, rpc = '–', key, isRepeatable }]) => [
    name,
    method,
    path,
    rpc,
    keys[key],
    isRepeatable ? 'yes' : 'no',
  ]);
  expect(rowsOf(page, '| operation | method | path | message | key | repeated |')).toEqual(rows);
  const paths: readonly string[] = rows.map(([, , path = '']) => path);
  expect([...page.matchAll(/\/v1\/[^\s`]*/g)].map(([path]) => path)).toEqual(paths);
});

test('the service page explains the meaning of statuses', () => {
  const rows = rowsOf(page, '| status | code | the agent |');
  expect(rows.length).toBeGreaterThan(9);
  for (const [statuses = '', code, does = ''] of rows) {
    for (const status of statuses.split(', ').map(Number)) {
      const error = errorOfStatus(
        { operation: 'a call', status, place: 'things.example.com/v1', headers: {}, excerpt: undefined, key: 'sent' },
        0,
      );
      expect([status, error.code]).toEqual([status, code]);
      expect(error.remedy === 'give-up', `${status}: ${error.remedy}`).toBe(does.startsWith('does not retry'));
    }
  }
});

test('the page about the service has the topics and their defaults', () => {
  const { messaging } = serviceSchema.parse({
    url: 'https://things.example.com',
    messaging: { url: 'mqtts://broker.example.com' },
  });
  const rows = rowsOf(page, '| topic | default | publisher |').map(([name = '', value]) => [name, value]);
  const topics = rows.map(([name = '']) => [
    name,
    Object.entries(messaging ?? {}).find(([key]) => key === name)?.[1] ?? '–',
  ]);
  expect(rows).toEqual(topics);
  expect(rows).toHaveLength(5);
});
