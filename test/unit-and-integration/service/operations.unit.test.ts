import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { operations, paramsOf, pathOf, titleOf } from '../../../src/service/operations.ts';
import { findRoute } from '../../fakes/service/rest/routes.ts';

const input = { serialNumber: 'GW-0001', thingId: 't', versionId: 'v', propertyId: 'p', eventId: 'e' };

test('operations match the interface, in either form', () => {
  const told = Object.values(operations).map((row) => [row.method, pathOf(row, input), row.rpc, paramsOf(row, input)]);
  const [thingId, versionId] = ['t', 'v'];
  expect(told).toEqual([
    ['PUT', '/v1/things/activate/GW-0001.json', 'things.activate', { serialNumber: 'GW-0001' }],
    ['GET', '/v1/things/t/versions/current.json', 'things.versions.current.get', { thingId }],
    ['GET', '/v1/things/t/versions/target.json', 'things.versions.target.get', { thingId }],
    ['GET', '/v1/things/t/versions/v/firmware.json', 'things.versions.firmware.get', { thingId, versionId }],
    ['GET', '/v1/things/t/versions/v/updates.json', 'things.versions.updates.list', { thingId, versionId }],
    ['PUT', '/v1/things/t/versions/v/switch.json', 'things.versions.switch', { thingId, versionId }],
    ['GET', '/v1/things/t/properties/p/value.json', undefined, { thingId, propertyId: 'p' }],
    ['PUT', '/v1/things/t/properties/p/value.json', undefined, { thingId, propertyId: 'p' }],
    ['POST', '/v1/things/t/events/e/datapoints.json', undefined, { thingId, eventId: 'e' }],
  ]);
});

test('a call is named without control characters, and not endlessly', () => {
  const long = { ...input, versionId: `\u001b[2J${'v'.repeat(100)}` };
  expect(titleOf(operations.switchTo, long)).toBe(`switch to version ?[2J${'v'.repeat(60)}`);
});

describe('paths', () => {
  test('carry ids with any character as one segment', () => {
    expect(pathOf(operations.firmware, { thingId: 'a/b?c#d', versionId: 'ü 1%' })).toBe(
      '/v1/things/a%2Fb%3Fc%23d/versions/%C3%BC%201%25/firmware.json',
    );
  });

  test.each(['', '.', '..', '\ud800'])('refuse the id %j, which would name something else or nothing', (id) => {
    const path = (): string => pathOf(operations.targetVersion, { thingId: id });
    const what = expect.stringContaining('cannot be used as a thing id') as string;
    expect(path).toThrow(expect.objectContaining({ code: 'id-invalid', exit: 'usage', message: what }));
  });

  test('are parsed correctly by the peer, for any ids', () => {
    const character = fc.oneof(fc.integer({ max: 0xd7ff, min: 0 }), fc.integer({ max: 0x10ffff, min: 0xe000 }));
    const id = fc
      .array(character, { minLength: 1, maxLength: 8 })
      .map((codes) => String.fromCodePoint(...codes))
      .filter((text) => text !== '.' && text !== '..');
    fc.assert(
      fc.property(id, id, (thingId, versionId) => {
        const path = pathOf(operations.switchTo, { thingId, versionId });
        expect(new URL(path, 'http://host').pathname).toBe(path);
        expect(findRoute('PUT', path)).toEqual({ operation: 'switchTo', ids: [thingId, versionId] });
      }),
    );
  });
});
