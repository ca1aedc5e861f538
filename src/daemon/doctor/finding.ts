import type { DoctorFinding } from '../../control/reports.ts';
import { AgentError } from '../../system/errors.ts';

/** The finding of one check; undefined: this gateway does not need it. */
export async function finding(
  name: string,
  look: () => Promise<string | undefined>,
): Promise<DoctorFinding | undefined> {
  try {
    const detail = await look();
    return detail === undefined ? undefined : { name, ok: true, detail };
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    return { name, ok: false, detail: error.message, advice: error.advice };
  }
}
