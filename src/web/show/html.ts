import { printable } from '../../system/log/printable.ts';

/** Guarantee `page`: HTML that may be sent as it is. Only `html` makes it, so that every text from outside is escaped. */
export class Html {
  readonly text: string;

  private constructor(text: string) {
    this.text = text;
  }

  static of(strings: TemplateStringsArray, values: readonly Content[]): Html {
    return new Html(
      strings.map((fixed, index) => (index === 0 ? '' : contentText(values[index - 1])) + fixed).join(''),
    );
  }
}

/** A value in a template: a text, which is escaped, or HTML; undefined and false show nothing. */
export type Content = string | number | Html | readonly Html[] | undefined | false;

/** Values are only allowed in elements, or between the double quotes of an attribute. */
export function html(strings: TemplateStringsArray, ...values: readonly Content[]): Html {
  return Html.of(strings, values);
}

export function table(columns: readonly string[], rows: readonly Html[]): Html {
  return html`<table>
    <thead>
      <tr>
        ${columns.map((title) => html`<th scope="col">${title}</th>`)}
      </tr>
    </thead>
    <tbody>
      ${rows}
    </tbody>
  </table>`;
}

/** The maximum length of a text; longer texts are truncated. */
const MAX_TEXT_LENGTH = 1_000;

function contentText(content: Content): string {
  if (content === undefined || content === false) return '';
  if (typeof content === 'number') return String(content);
  if (typeof content === 'string') return escapeText(content);
  return content instanceof Html ? content.text : content.map(({ text }) => text).join('');
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/**
 * Makes a text from outside safe: cut, with unprintable characters escaped, and without characters that have a meaning
 * in HTML.
 */
export function escapeText(text: string): string {
  const short = text.length > MAX_TEXT_LENGTH ? `${text.slice(0, MAX_TEXT_LENGTH)}…` : text;
  return printable(short.toWellFormed()).replaceAll(/[&<>"']/g, (character) => entities[character] ?? '');
}
