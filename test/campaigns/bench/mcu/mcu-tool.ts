import { AgentError } from '../../../../src/system/errors.ts';

/** A standard tool that missed an answer of a simulated board, for want of a processor, has another go. */
const maxTries = 3;

export interface ToolRun {
  readonly name: string;
  readonly tell: (line: string) => void;
  /** Uses a fresh board for each attempt. Undefined after a failure, which it reports by `tell`. */
  readonly attempt: () => Promise<number | undefined>;
  readonly tries?: number;
}

/** Seconds of the first run that succeeds; NaN where none does: that is a row of the table, not the end of it. */
export async function toolSeconds({ name, tell, attempt, tries = maxTries }: ToolRun): Promise<number> {
  for (let tried = 1; tried <= tries; tried += 1) {
    try {
      const seconds = await attempt();
      if (seconds !== undefined) return seconds;
    } catch (error) {
      if (!(error instanceof AgentError)) throw error;
      tell(`${name}: ${error.message}`);
    }
    tell(`${name} failed, ${tried} of ${tries} tries`);
  }
  return NaN;
}
