import type { DoctorFinding } from '../../control/reports.ts';
import { AgentError } from '../../system/errors.ts';

/** Something without which an update works, but the gateway may not recover from a failure. */
export interface Warning {
  readonly detail: string;
  readonly advice: string;
}

/**
 * The checks of requirements, by name. A check returns its finding, or throws an AgentError with the problem. It
 * returns undefined if this gateway does not need it.
 */
export type Checks<Examined> = Readonly<
  Record<string, (examined: Examined, signal: AbortSignal) => Promise<string | Warning | undefined>>
>;

/** Runs all checks, whichever of them fail. */
export async function runChecks<Examined>(
  checks: Checks<Examined>,
  examined: Examined,
  signal: AbortSignal,
): Promise<readonly DoctorFinding[]> {
  const findings: DoctorFinding[] = [];
  for (const [name, check] of Object.entries(checks)) {
    try {
      const found = await check(examined, signal);
      if (typeof found === 'string') findings.push({ name, ok: true, detail: found });
      else if (found !== undefined) findings.push({ name, ok: true, isWarning: true, ...found });
    } catch (error) {
      if (!(error instanceof AgentError)) throw error;
      findings.push({ name, ok: false, detail: error.message, advice: error.advice });
    }
  }
  return findings;
}
