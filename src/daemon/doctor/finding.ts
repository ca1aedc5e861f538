import type { DoctorFinding } from '../../control/reports.ts';
import { AgentError } from '../../system/errors.ts';

/** Something without which an update works, but the gateway may not recover from a failure. */
export interface Warning {
  readonly detail: string;
  readonly advice: string;
}

/** Returns the finding of one check, or undefined if this gateway does not need it. */
export async function finding(
  name: string,
  look: () => Promise<string | Warning | undefined>,
): Promise<DoctorFinding | undefined> {
  try {
    const found = await look();
    if (found === undefined) return undefined;
    return typeof found === 'string'
      ? { name, ok: true, detail: found }
      : { name, ok: true, isWarning: true, ...found };
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    return { name, ok: false, detail: error.message, advice: error.advice };
  }
}
