import { parseArguments } from '../../../../src/cli/arguments/parse-arguments.ts';

/** Returns the text after `agent` for each command in a page, in blocks of shell and in sentences. */
export function typedIn(page: string): readonly string[] {
  const blocks = [...page.matchAll(/^```sh.*\n(?<text>[^]*?)^```$/gm)].map(({ groups }) => groups?.['text'] ?? '');
  const prose = page.replaceAll(/^```[^]*?^```$/gm, '');
  const inBlocks = blocks.flatMap((text) =>
    text
      .replaceAll(/\s*\\\n\s*/g, ' ')
      .split('\n')
      .flatMap(commandsOf),
  );
  const inSentences = [...prose.matchAll(/`agent (?<line>[^`]+)`/g)].map(({ groups }) => groups?.['line'] ?? '');
  return [...inBlocks, ...inSentences.map((line) => line.replaceAll(/\s+/g, ' '))];
}

function commandsOf(line: string): readonly string[] {
  const [typed = ''] = line.split(/\s#\s|^#/);
  return typed
    .split(/&&|\|\||[|;<>]/)
    .map((part) => /^\s*(?:sudo )?(?:\.\/)?agent (?<rest>.*)$/.exec(part)?.groups?.['rest']?.trim())
    .filter((rest) => rest !== undefined);
}

/** As a shell splits them, as far as pages need it. */
export function wordsOf(line: string): readonly string[] {
  return [...line.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(
    ([, double, single, bare]) => double ?? single ?? bare ?? '',
  );
}

/** Returns the error of the agent's own parser, or undefined for a valid command. */
export function usageErrorOf(line: string): string | undefined {
  const { wanted } = parseArguments(wordsOf(line));
  return wanted.kind === 'usage-error' ? wanted.message : undefined;
}
