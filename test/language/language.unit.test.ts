import { describe, expect, test } from 'vitest';

import { allowedCounts, countHits, findHits } from './lint.ts';
import { markdownTexts, projectTexts, sourceTexts } from './texts.ts';

describe('the texts of the project', () => {
  test('hit each pattern of the language guide at most as often as recorded (npx node test/language/lint.ts --lower)', () => {
    const allowed = allowedCounts();
    const hits = findHits(projectTexts());
    const more = Object.entries(countHits(hits)).flatMap(([module, counts]) =>
      Object.entries(counts)
        .filter(([pattern, count]) => count > (allowed[module]?.[pattern] ?? 0))
        .map(([pattern, count]) => `${module}: ${pattern} ${count}, allowed ${allowed[module]?.[pattern] ?? 0}`),
    );
    expect(more).toEqual([]);
  });
});

describe('sourceTexts', () => {
  test('finds comments, titles and messages', () => {
    const source = [
      '/** Returns it. */',
      "test.each([1])('adds %i', () => {",
      "  throw new Error('a message'); // why",
      "  f(/it's/, 'word');",
    ].join('\n');
    expect(sourceTexts(source)).toEqual([
      { kind: 'comment', line: 1, text: 'Returns it.' },
      { kind: 'title', line: 2, text: 'adds %i' },
      { kind: 'message', line: 3, text: 'a message' },
      { kind: 'comment', line: 3, text: 'why' },
    ]);
  });

  test('excuses a line that says why', () => {
    expect(sourceTexts("// language-ok: a quotation\nconst quoted = 'nobody home';")).toEqual([]);
  });
});

test('markdownTexts leaves out code', () => {
  expect(markdownTexts('A `person` reads\n```\nnobody\n```\n    nobody\nthis.')).toEqual([
    { line: 1, text: 'A `…` reads' },
    { line: 6, text: 'this.' },
  ]);
});
