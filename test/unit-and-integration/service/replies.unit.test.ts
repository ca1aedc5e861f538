import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { ServiceError } from '../../../src/service/errors.ts';
import { readActivation, readJson, readJsonOrText, readVersion, readVersions } from '../../../src/service/replies.ts';

const utf8 = (text: string): Buffer => Buffer.from(text, 'utf8');

describe('a version', () => {
  test.each([
    [{ id: '1', name: 'one' }, undefined],
    [{ id: '1', name: 'one', description: null }, undefined],
    [{ id: '1', name: 'one', description: 'first' }, 'first'],
    [{ id: '1', name: 'one', size: 7, more: {} }, undefined],
  ])('%j is understood', (reply, description) => {
    expect(readVersion(reply, 'target version')).toEqual({ id: '1', name: 'one', description });
  });

  test.each([
    [{ name: 'one' }, 'at `id`'],
    [{ id: '', name: 'one' }, 'at `id`'],
    [{ id: 1, name: 'one' }, 'at `id`'],
    [{ id: '1' }, 'at `name`'],
    [{ id: '1', name: 'one', description: 5 }, 'at `description`'],
    [null, 'as a whole'],
    ['1', 'as a whole'],
    [[{ id: '1', name: 'one' }], 'as a whole'],
  ])('%j is refused with the operation and the offending part', (reply, part) => {
    const read = (): unknown => readVersion(reply, 'target version');
    expect(read).toThrow(expect.objectContaining({ code: 'reply-malformed', exit: 'protocol' }));
    expect(read).toThrow(`target version: the reply is wrong ${part}`);
  });

  test('in a list is named by its place', () => {
    expect(readVersions([], 'updates')).toEqual([]);
    expect(() => readVersions([{ id: '1', name: 'a' }, { id: '2' }], 'updates')).toThrow('at `1.name`');
  });
});

describe('an activation', () => {
  test('gives the thing and its key', () => {
    expect(readActivation({ thingId: 't', apiKey: 'k y', since: 0 }, 'activation')).toEqual({
      thingId: 't',
      apiKey: 'k y',
    });
  });

  test.each(['', 'a\r\nx: y', 'ключ', ' k', 7])('with the key %j is refused: it cannot be sent', (apiKey) => {
    expect(() => readActivation({ thingId: 't', apiKey }, 'activation')).toThrow('at `apiKey`');
  });
});

describe('a body', () => {
  test.each([
    ['', 'no body'],
    ['{', 'not JSON'],
    ['<html>', 'not JSON'],
  ])('%j is refused where JSON is expected', (body, why) => {
    expect(() => readJson(utf8(body), 'target version')).toThrow(why);
  });

  test('that is not UTF-8 is refused', () => {
    expect(() => readJson(Buffer.from([0x22, 0xff, 0x22]), 'x')).toThrow(
      expect.objectContaining({ code: 'reply-malformed' }),
    );
    expect(() => readJsonOrText(Buffer.from([0xff]), 'x')).toThrow(
      expect.objectContaining({ code: 'reply-malformed' }),
    );
  });

  test.each([
    ['{"a":1}', { a: 1 }],
    ['21.5', 21.5],
    ['"text"', 'text'],
    ['plain text', 'plain text'],
    ['', undefined],
  ])('%j is the property value %j', (body, value) => {
    expect(readJsonOrText(utf8(body), 'property x')).toEqual(value);
  });
});

test('no reply makes the reader crash: it is understood or it is a ServiceError', () => {
  const readers = [readActivation, readVersion, readVersions];
  fc.assert(
    fc.property(
      fc.oneof(
        fc.json().map(utf8),
        fc.uint8Array().map((bytes) => Buffer.from(bytes)),
      ),
      fc.constantFrom(...readers),
      (body, read) => {
        expect(['understood', ServiceError]).toContain(kindOf(() => read(readJson(body, 'x'), 'x')));
      },
    ),
    { numRuns: 1_000 },
  );
});

function kindOf(reading: () => unknown): unknown {
  try {
    reading();
    return 'understood';
  } catch (error) {
    return error instanceof Error ? error.constructor : error;
  }
}

test('rejects a reply that is nested too deep to be written again', () => {
  const deep = utf8(`${'['.repeat(100_000)}${']'.repeat(100_000)}`);
  expect(() => readJson(deep, 'x')).toThrow('the reply is nested deeper than 32 levels');
  expect(() => readJsonOrText(deep, 'property x')).toThrow('the reply is nested deeper than 32 levels');
});

test('rejects an invalid name, and truncates a long description', () => {
  const long = 'a'.repeat(25_000);
  expect(() => readVersion({ id: '1', name: long }, 'x')).toThrow('the reply is wrong at `name`');
  expect(() => readVersion({ id: long, name: 'one' }, 'x')).toThrow('the reply is wrong at `id`');
  expect(readVersion({ id: '1', name: 'one', description: long }, 'x').description).toHaveLength(4_096);
});

test.each(['.', '..', '\ud800'])('rejects a thing that could not be requested again: %j', (thingId) => {
  expect(() => readActivation({ thingId, apiKey: 'k' }, 'activation')).toThrow(
    'the reply is wrong at `thingId`: cannot be used in an address',
  );
});
