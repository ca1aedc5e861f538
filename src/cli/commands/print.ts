import { exitCodes } from '../../system/errors.ts';
import { printableJson } from '../../system/log/printable.ts';
import type { ParsedCommand } from '../arguments/command.ts';
import type { CliContext } from '../context.ts';
import { renderParagraph } from '../screen/layout.ts';
import { pageFor } from '../screen/page.ts';
import type { Page } from '../screen/page.ts';

/** Prints a result: as JSON with `--json`, else as text. Returns the exit code. */
export function printResult(
  value: unknown,
  page: (page: Page) => string,
  { json }: Pick<ParsedCommand, 'json'>,
  context: CliContext,
): number {
  context.out.write(json ? `${printableJson(value)}\n` : page(pageFor(context.out, context)));
  return exitCodes.done;
}

export function singleParagraph(text: string): (page: Page) => string {
  return (page) => renderParagraph(text, page);
}
