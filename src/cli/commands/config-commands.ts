import { ConfigError, describeProblem } from '../../config/errors.ts';
import { exitCodes } from '../../system/errors.ts';
import type { CliContext } from '../context.ts';
import { renderParagraph } from '../screen/layout.ts';
import { pageFor } from '../screen/page.ts';
import { printable, printableJson } from '../screen/printable.ts';

export type ConfigQuestion = 'check' | 'show' | 'schema';

export async function runConfig(what: ConfigQuestion, json: boolean, context: CliContext): Promise<number> {
  switch (what) {
    case 'check':
      return checkConfig(json, context);
    case 'show': {
      const { text, value } = await context.config.show();
      context.out.write(
        json ? `${printableJson(value)}\n` : `${text.trimEnd().split('\n').map(printable).join('\n')}\n`,
      );
      return exitCodes.done;
    }
    case 'schema':
      context.out.write(`${printableJson(await context.config.schema(), json ? undefined : 2)}\n`);
      return exitCodes.done;
  }
}

/** Every problem, not only the first. */
async function checkConfig(json: boolean, context: CliContext): Promise<number> {
  const page = pageFor(context.out, context);
  try {
    const { path, warnings } = await context.config.check();
    const lines = [`${path} is valid.`, ...warnings.map((warning) => `Warning: ${warning}`)];
    const text = lines.map((line) => renderParagraph(line, page)).join('');
    context.out.write(json ? `${printableJson({ valid: true, path, warnings })}\n` : text);
    return exitCodes.done;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const { path, problems, omitted } = error;
    const lines = problems.map((problem) => describeProblem(path, problem));
    if (omitted > 0) lines.push(`and ${omitted} more`);
    const text = lines.map((line) => renderParagraph(line, page)).join('');
    context.out.write(json ? `${printableJson({ valid: false, path, problems, omitted })}\n` : text);
    return exitCodes.configuration;
  }
}
