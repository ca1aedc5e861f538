import type { Mixture } from '../../config/check/two-processes.ts';
import type { DoctorFinding } from '../../control/reports.ts';

/** A mixture, as the process that looks around meets it. */
export interface SeenMixture extends Mixture {
  /** This process has not the rights that it needs: what fails may fail because of that alone. */
  readonly hinders: boolean;
}

/** What an agent without rights cannot find out without its helper. */
const needRights: ReadonlySet<string> = new Set([
  'state directory',
  'journal',
  'trusted keys',
  'service', // whose key is in the state directory
  'boards',
  'users of programs',
  'helper',
  'boot environment',
  'staging slot',
  'safety net',
  'spool',
]);

/** The findings with the cause first, and without what follows from it. Pure. */
export function causeFirst(
  mixture: SeenMixture | undefined,
  findings: readonly DoctorFinding[],
): readonly DoctorFinding[] {
  if (mixture === undefined) return findings;
  const { why, advice, hinders } = mixture;
  const left = findings.filter(({ name, ok }) => hinders && !ok && needRights.has(name));
  const unjudged = left.length === 0 ? '' : `. Not looked at until then: ${left.map(({ name }) => name).join(', ')}`;
  const cause = { name: 'two processes', ok: false, detail: why, advice: `${advice}${unjudged}` };
  return [cause, ...findings.filter((finding) => !left.includes(finding))];
}
