import { exitCodes } from '../../system/errors.ts';
import type { CliContext } from '../context.ts';
import { CliError } from '../errors.ts';
import { renderParagraph } from '../screen/layout.ts';
import { pageFor } from '../screen/page.ts';
import { printableJson } from '../screen/printable.ts';

/** `agent explain CODE`: the catalogue's page on one code, offline. */
export async function explain(code: string, json: boolean, context: CliContext): Promise<number> {
  const meaning = await context.explain(code);
  if (meaning === undefined) {
    throw new CliError('usage', `there is no error code ${code}`, {
      advice: 'a code is what stands in brackets at the end of a message, such as tls-unknown-ca',
    });
  }
  if (json) {
    const exitCode = 'exit' in meaning ? exitCodes[meaning.exit] : undefined;
    context.out.write(`${printableJson({ code, ...meaning, exitCode })}\n`);
    return exitCodes.done;
  }
  const lines = [meaning.means];
  if (meaning.advice !== undefined) lines.push(`What to do: ${meaning.advice}.`);
  if ('remedy' in meaning) {
    lines.push(
      meaning.remedy === 'retry' ? 'Waiting may cure it: the agent tries again.' : 'Waiting does not cure it.',
    );
    lines.push(`A command that fails so ends with exit code ${exitCodes[meaning.exit]}.`);
  }
  const page = pageFor(context.out, context);
  context.out.write(lines.map((line) => renderParagraph(line, page)).join(''));
  return exitCodes.done;
}
