import { describe, expect, test } from 'vitest';

import { readReply } from '../../../../src/service/messaging/reply.ts';

function read(text: string | Buffer): unknown {
  return readReply(Buffer.from(text));
}

const broken = (why: string, id?: string): unknown => ({ kind: 'broken', id, why });

describe('readReply', () => {
  test.each([
    ['{"jsonrpc":"2.0","id":"a","result":{"x":[1]}}', { kind: 'result', id: 'a', result: { x: [1] } }],
    ['{"result":"QUJD","id":"\\u0061","jsonrpc":"2.0"}', { kind: 'result', id: 'a', result: 'QUJD' }],
    ['{"jsonrpc":"2.0","id":"a"}', { kind: 'result', id: 'a', result: undefined }],
    ['{"jsonrpc":"2.0","id":"a","error":null}', { kind: 'result', id: 'a', result: undefined }],
    ['{"jsonrpc":"2.0","id":"a","result":null,"more":{}}', { kind: 'result', id: 'a', result: null }],
    ['\ufeff{"jsonrpc":"2.0","id":"a","result":1}', { kind: 'result', id: 'a', result: 1 }],
  ])('takes %s', (text, expected) => {
    expect(read(text)).toEqual(expected);
  });

  test('takes an error, without its data, and without an id', () => {
    const failure = { code: -32_602, message: 'no' };
    const text = JSON.stringify({ jsonrpc: '2.0', id: 'a', error: { ...failure, data: { which: ['versionId'] } } });
    expect(read(text)).toEqual({ kind: 'failure', id: 'a', failure });
    const short = { code: 1, message: '' };
    expect(read(JSON.stringify({ jsonrpc: '2.0', id: null, error: short }))).toEqual({
      kind: 'failure',
      id: undefined,
      failure: short,
    });
  });

  test('knows a request', () => {
    const text = '{"jsonrpc":"2.0","id":"a","method":"things.activate","params":{}}';
    expect(read(text)).toEqual({ kind: 'request' });
  });

  test.each([
    ['{"jsonrpc":"2.0","result":1}', broken('it has no id')],
    ['{"jsonrpc":"2.0","id":7,"result":1}', broken('it has no id')],
    ['{"jsonrpc":"2.0","id":{"a":1},"result":1}', broken('it has no id')],
    ['{"id":"a","result":1}', broken('it is not JSON-RPC 2.0', 'a')],
    ['{"jsonrpc":2.0,"id":"a","result":1}', broken('it is not JSON-RPC 2.0', 'a')],
    [
      '{"jsonrpc":"2.0","id":"a","result":1,"error":{"code":1,"message":""}}',
      broken('it has both a result and an error', 'a'),
    ],
    ['{"jsonrpc":"2.0","id":"a","error":"no"}', broken('its error is not an error object of JSON-RPC', 'a')],
    [
      '{"jsonrpc":"2.0","id":"a","error":{"code":1.5,"message":""}}',
      broken('its error is not an error object of JSON-RPC', 'a'),
    ],
    ['{"jsonrpc":"2.0","id":"a","error":{"code":[}}', broken('it is not a JSON object in UTF-8')],
    ['{"jsonrpc":"2.0","id":"a","result":"QUJ', broken('it is not a JSON object in UTF-8')],
    ['[{"jsonrpc":"2.0","id":"a","result":1}]', broken('it is not a JSON object in UTF-8')],
    ['"a"', broken('it is not a JSON object in UTF-8')],
    [Buffer.from('{"jsonrpc":"2.0","id":"\xff","result":1}', 'latin1'), broken('it is not a JSON object in UTF-8')],
  ])('finds what is broken: %#', (text, expected) => {
    expect(read(text)).toEqual(expected);
  });

  const long = 3_000_000;

  test.each([
    ['plain', `"${'QUJD'.repeat(long)}"`],
    ['full of escapes', `"${'\\/'.repeat(long)}"`],
    ['that ends with a backslash', `"${'A'.repeat(long)}\\\\"`],
    ['with a quotation mark', `"${'A'.repeat(long)}\\"B"`],
  ])('takes a long text as it is: %s', (_, text) => {
    for (const reply of [
      `{"jsonrpc":"2.0","id":"a","result":${text}}`,
      `{"result": ${text} ,"note":"a \\"b\\\\","id":"a","jsonrpc":"2.0"}`,
    ]) {
      const read = readReply(Buffer.from(reply));
      expect(read).toMatchObject({ kind: 'result', id: 'a' });
      expect(read.kind === 'result' && Buffer.isBuffer(read.result) && read.result.equals(Buffer.from(text))).toBe(
        true,
      );
    }
  });

  test.each([
    [
      'in another member',
      `{"jsonrpc":"2.0","id":"a","x":"${'A'.repeat(long)}"}`,
      { kind: 'result', result: undefined },
    ],
    [
      'within the result',
      `{"jsonrpc":"2.0","id":"a","result":{"x":"${'A'.repeat(long)}"}}`,
      { kind: 'result', result: { x: expect.stringMatching(/^.{36}$/) as unknown } },
    ],
    ['in no member', `"${'A'.repeat(long)}"`, { kind: 'broken' }],
    ['without an end', `{"jsonrpc":"2.0","id":"a","result":"${'A'.repeat(long)}`, { kind: 'broken' }],
    [
      'of many',
      JSON.stringify({ jsonrpc: '2.0', id: 'a', result: Array(300_000).fill('A'.repeat(8)) }),
      { kind: 'broken' },
    ],
    ['of quotation marks', '"'.repeat(long), { kind: 'broken' }],
    ['of backslashes', `{"jsonrpc":"2.0","id":"a","result":"${'\\\\'.repeat(long)}`, { kind: 'broken' }],
  ])('does not take a long text %s', (_, text, expected) => {
    expect(read(text)).toMatchObject(expected);
  });
});
