import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { paths } from '../../../../src/service/rest/paths.ts';
import { findRoute } from '../../../stand-ins/service/routes.ts';

describe('paths', () => {
  test('are those of the interface', () => {
    expect(paths.activate('GW-0001')).toBe('/v1/things/activate/GW-0001.json');
    expect(paths.currentVersion('t')).toBe('/v1/things/t/versions/current.json');
    expect(paths.targetVersion('t')).toBe('/v1/things/t/versions/target.json');
    expect(paths.firmware('t', 'v')).toBe('/v1/things/t/versions/v/firmware.json');
    expect(paths.updates('t', 'v')).toBe('/v1/things/t/versions/v/updates.json');
    expect(paths.switchTo('t', 'v')).toBe('/v1/things/t/versions/v/switch.json');
    expect(paths.property('t', 'p')).toBe('/v1/things/t/properties/p/value.json');
    expect(paths.datapoints('t', 'e')).toBe('/v1/things/t/events/e/datapoints.json');
  });

  test('carry ids with any character as one segment', () => {
    expect(paths.firmware('a/b?c#d', 'ü 1%')).toBe('/v1/things/a%2Fb%3Fc%23d/versions/%C3%BC%201%25/firmware.json');
  });

  test.each(['', '.', '..', '\ud800'])('refuse the id %j, which would name something else or nothing', (id) => {
    expect(() => paths.targetVersion(id)).toThrow(expect.objectContaining({ code: 'id-unusable', exit: 'usage' }));
  });

  test('are understood by the other side, whatever the ids are', () => {
    const character = fc.oneof(fc.integer({ max: 0xd7ff, min: 0 }), fc.integer({ max: 0x10ffff, min: 0xe000 }));
    const id = fc
      .array(character, { minLength: 1, maxLength: 8 })
      .map((codes) => String.fromCodePoint(...codes))
      .filter((text) => text !== '.' && text !== '..');
    fc.assert(
      fc.property(id, id, (thingId, versionId) => {
        const path = paths.switchTo(thingId, versionId);
        expect(new URL(path, 'http://host').pathname).toBe(path);
        expect(findRoute('PUT', path)).toEqual({ operation: 'switchTo', ids: [thingId, versionId] });
      }),
    );
  });
});
