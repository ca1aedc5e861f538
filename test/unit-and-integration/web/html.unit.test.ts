import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { escapeText, html } from '../../../src/web/show/html.ts';
import { anyCharacter } from '../../any-character.ts';

describe('a text from outside', () => {
  test('makes no tag, no attribute and no entity, whatever it is', () => {
    fc.assert(
      fc.property(fc.string({ unit: anyCharacter, maxLength: 200 }), (text) => {
        expect(html`<p title="${text}">${text}</p>`.text).toMatch(/^<p title="[^<>"']*">[^<>"']*<\/p>$/);
        expect(escapeText(text).replaceAll(/&(?:amp|lt|gt|quot|#39);/g, '')).not.toMatch(/[&<>"']/);
      }),
      { numRuns: 300 },
    );
  });

  test.each([
    ['</script><img src=x onerror=alert(1)>', '&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;'],
    ['" autofocus onfocus="x', '&quot; autofocus onfocus=&quot;x'],
    ["a'b&amp;", 'a&#39;b&amp;amp;'],
    ['a\u202Eb\nc\rd\u2028e', String.raw`a\u{202e}b\nc\x0dd\u{2028}e`],
    ['\uD800x', '\uFFFDx'],
  ])('is written out: %j', (text, escaped) => {
    expect(escapeText(text)).toBe(escaped);
  });

  test('is truncated if too long, and stays valid', () => {
    expect(escapeText('<'.repeat(5_000))).toBe(`${'&lt;'.repeat(1_000)}…`);
  });
});

test('HTML in HTML is unchanged, one piece after the other; nothing for an empty value', () => {
  const items = ['a', '<b>'].map((text) => html`<i>${text}</i>`);
  expect(html`${items}${undefined}${false}${0}`.text).toBe('<i>a</i><i>&lt;b&gt;</i>0');
});
