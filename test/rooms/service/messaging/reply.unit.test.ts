import { describe, expect, test } from 'vitest';

import { readReply } from '../../../../src/service/messaging/reply.ts';
import type { Reply } from '../../../../src/service/messaging/reply.ts';
import { payloadOf } from '../../mqtt/blocks.ts';

/** The reply with the text of its result in the result's place. */
function read(text: string | Buffer): unknown {
  const reply: Reply = readReply(payloadOf(text, [5, 17]));
  if (reply.kind !== 'result' || reply.result === undefined) return reply;
  const { payload, start, end } = reply.result;
  return { ...reply, result: payload.join(start, end).toString('latin1') };
}

const broken = (why: string, id?: string): unknown => ({ kind: 'broken', id, why });

describe('readReply', () => {
  test.each([
    ['{"jsonrpc":"2.0","id":"a","result":{"x":[1]}}', { kind: 'result', id: 'a', result: '{"x":[1]}' }],
    ['{"result":"QUJD","id":"\\u0061","jsonrpc":"2.0"}', { kind: 'result', id: 'a', result: '"QUJD"' }],
    ['{"jsonrpc":"2.0","id":"a"}', { kind: 'result', id: 'a', result: undefined }],
    ['{"jsonrpc":"2.0","id":"a","error":null}', { kind: 'result', id: 'a', result: undefined }],
    ['{"jsonrpc":"2.0","id":"a","result":null,"more":{}}', { kind: 'result', id: 'a', result: 'null' }],
  ])('takes %s', (text, expected) => {
    expect(read(text)).toEqual(expected);
  });

  test('takes an error, with its data and without an id', () => {
    const failure = { code: -32_602, message: 'no', data: { which: ['versionId'] } };
    const text = JSON.stringify({ jsonrpc: '2.0', id: 'a', error: failure });
    expect(read(text)).toEqual({ kind: 'failure', id: 'a', failure });
    const short = { code: 1, message: '' };
    expect(read(JSON.stringify({ jsonrpc: '2.0', id: null, error: short }))).toEqual({
      kind: 'failure',
      id: undefined,
      failure: { ...short, data: undefined },
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
    [`{"jsonrpc":"2.0","id":"${'x'.repeat(2000)}","result":1}`, broken('it has no id')],
    ['{"id":"a","result":1}', broken('it is not JSON-RPC 2.0', 'a')],
    ['{"jsonrpc":2.0,"id":"a","result":1}', broken('it is not JSON-RPC 2.0', 'a')],
    ['{"jsonrpc":"2.0","id":"a","id":"b","result":1}', broken('it names a member twice', 'b')],
    [
      '{"jsonrpc":"2.0","id":"a","result":1,"error":{"code":1,"message":""}}',
      broken('it has both a result and an error', 'a'),
    ],
    ['{"jsonrpc":"2.0","id":"a","error":"no"}', broken('its error is not an error object of JSON-RPC', 'a')],
    [
      '{"jsonrpc":"2.0","id":"a","error":{"code":1.5,"message":""}}',
      broken('its error is not an error object of JSON-RPC', 'a'),
    ],
    ['{"jsonrpc":"2.0","id":"a","error":{"code":[}}', broken('it is not a JSON object: it ends too early', 'a')],
    [
      `{"jsonrpc":"2.0","id":"a","error":{"code":1,"message":"${'x'.repeat(70_000)}"}}`,
      broken('its error is not an error object of JSON-RPC', 'a'),
    ],
    ['{"jsonrpc":"2.0","id":"a","result":"QUJ', broken('it is not a JSON object: it ends within a string', 'a')],
    ['[{"jsonrpc":"2.0","id":"a","result":1}]', broken('it is not a JSON object: it does not begin with "{"')],
    [Buffer.from('{"jsonrpc":"2.0","id":"\xff","result":1}', 'latin1'), broken('it has no id')],
  ])('finds what is broken: %#', (text, expected) => {
    expect(read(text)).toEqual(expected);
  });

  test('walks a text that is full of escapes once, not once for each', () => {
    const length = 2_000_000;
    const text = `{"jsonrpc":"2.0","id":"a","result":"${'\\/'.repeat(length)}"}`;
    expect(read(text)).toMatchObject({ kind: 'result', id: 'a' });
    expect((read(text) as { readonly result: string }).result).toHaveLength(2 * length + 2);
  });
});
