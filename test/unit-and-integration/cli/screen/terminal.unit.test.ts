import { describe, expect, test } from 'vitest';

import { renderParagraph } from '../../../../src/cli/screen/layout.ts';
import { pageFor } from '../../../../src/cli/screen/page.ts';
import { type OutputStream, Terminal } from '../../../../src/cli/screen/terminal.ts';
import { fakeContext } from '../fake-context.ts';

function fakeStream(isTTY: boolean, columns?: number) {
  const written: string[] = [];
  const errors: ((error: Error) => void)[] = [];
  const stream = {
    isTTY,
    columns: columns ?? 0,
    write: (text: string) => written.push(text),
    on: (_event: 'error', listener: (error: Error) => void) => errors.push(listener),
  } satisfies OutputStream;
  return { stream, written, breakPipe: () => errors.forEach((tell) => tell(new Error('EPIPE'))) };
}

const erase = '\r\u001B[J';

describe('a pinned line', () => {
  test('is redrawn in place', () => {
    const { stream, written } = fakeStream(true, 80);
    const terminal = new Terminal(stream);
    terminal.pin('10%');
    terminal.pin('20%');
    terminal.pin(undefined);
    expect(written).toEqual(['10%', `${erase}20%`, erase]);
  });

  test('stays below what is written', () => {
    const { stream, written } = fakeStream(true, 80);
    const terminal = new Terminal(stream);
    terminal.pin('10%');
    terminal.write('a warning\n');
    expect(written.at(-1)).toBe(`${erase}a warning\n10%`);
  });

  test('is erased whole after the window became narrower', () => {
    const { stream, written } = fakeStream(true, 80);
    const terminal = new Terminal(stream);
    terminal.pin('x'.repeat(79));
    stream.columns = 30;
    terminal.pin('short');
    expect(written.at(-1)).toBe(`\r\u001B[2A\u001B[Jshort`);
  });

  test('is nothing where there is no terminal', () => {
    const { stream, written } = fakeStream(false);
    const terminal = new Terminal(stream);
    terminal.pin('10%');
    terminal.write('text\n');
    expect(written).toEqual(['text\n']);
    expect(terminal.columns).toBeUndefined();
  });
});

test('after the reader went away nothing is written, and nothing fails', () => {
  const { stream, written, breakPipe } = fakeStream(false);
  const terminal = new Terminal(stream);
  terminal.write('one\n');
  breakPipe();
  terminal.write('two\n');
  expect(written).toEqual(['one\n']);
});

describe('a page', () => {
  const long = 'one two three four '.repeat(30).trim();
  const show = (isTTY: boolean, columns?: number): string =>
    renderParagraph(long, pageFor(new Terminal(fakeStream(isTTY, columns).stream), fakeContext()));

  test('is not wrapped without a terminal, for programs and for copying', () => {
    expect(show(false)).toBe(`${long}\n`);
  });

  test.each([
    [60, 60],
    [0, 80],
    [300, 100],
  ])('is wrapped for a terminal of %i columns at %i', (columns, widest) => {
    const lines = show(true, columns).trimEnd().split('\n');
    expect(lines.length).toBeGreaterThan(1);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(widest);
    expect(Math.max(...lines.map((line) => line.length))).toBeGreaterThan(widest - 10);
  });
});
