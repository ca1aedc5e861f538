import type { Tone } from '../../control/presentation/rows/row.ts';

export type Style = (tone: Tone | undefined, text: string) => string;

const codes: Readonly<Record<Tone, number>> = { good: 32, attention: 33, bad: 31, strong: 1 };

export const plain: Style = (_tone, text) => text;

export const colored: Style = (tone, text) =>
  tone === undefined || text === '' ? text : `\u001B[${codes[tone]}m${text}\u001B[0m`;

/** Uses colors on a terminal that supports them, unless `NO_COLOR` is set and not empty (no-color.org). */
export function styleFor(
  screen: { readonly isTTY: boolean },
  env: Readonly<Record<string, string | undefined>>,
): Style {
  const wanted = (env['NO_COLOR'] ?? '') === '';
  return screen.isTTY && wanted && env['TERM'] !== 'dumb' ? colored : plain;
}
