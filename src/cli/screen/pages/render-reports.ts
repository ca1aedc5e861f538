import type { OperationOutcome, ReportedError } from '../../../control/events.ts';
import { pluralize } from '../../../control/presentation/counted.ts';
import { describeOutcome, resultWord } from '../../../control/presentation/outcome.ts';
import type { Row, Message } from '../../../control/presentation/rows/row.ts';
import { describeInstalled } from '../../../control/presentation/rows/status-rows.ts';
import { formatTime } from '../../../control/presentation/time.ts';
import type { CheckReport, DoctorFinding } from '../../../control/reports.ts';
import { renderParagraph, renderRows, wrap } from '../layout.ts';
import type { Page } from '../page.ts';

/** Renders the result of a check. `advice` is the remedy for the last failed attempt of this version. */
export function renderCheck(report: CheckReport, page: Page, advice?: string): string {
  const { offered, code } = report;
  const reason = code === undefined ? report.reason : `${report.reason} (${code})`;
  const plan = describePlan(report);
  const rows: readonly Row[] = [
    { label: 'Plan', paragraphs: planTexts(plan.text, reason), tone: plan.tone },
    { label: 'Last attempt', paragraphs: describeLastAttempt(report, page, advice), tone: 'attention' },
    { label: 'Offered', paragraphs: offered === undefined ? ['nothing'] : [`${offered.name} (id ${offered.id})`] },
    { label: '', paragraphs: offered?.description === undefined ? [] : [offered.description] },
    { label: 'Installed', paragraphs: describeInstalled(report.installed, page) },
  ];
  return renderRows(rows, page);
}

/** The reason may begin with the plan, or mean the same, and is then not repeated. */
function planTexts(plan: string, reason: string): readonly string[] {
  if (reason === '' || reason.endsWith(' can be installed')) return [plan];
  return reason.startsWith(plan.slice(0, -1)) ? [reason] : [plan, reason];
}

function describeLastAttempt({ lastAttempt }: CheckReport, page: Page, advice: string | undefined): readonly string[] {
  if (lastAttempt === undefined) return [];
  const { code, reason, at } = lastAttempt;
  return [
    `${resultWord(lastAttempt)}, ${formatTime(at, page)}: ${reason} (${code})`,
    ...(advice === undefined ? [] : [`to do: ${advice}`]),
    'steps: agent log',
  ];
}

function describePlan({ plan, offered, trustList, reason, lastAttempt }: CheckReport): Message {
  const name = offered?.name ?? 'the offered version';
  switch (plan) {
    case 'install':
      const outcome =
        lastAttempt !== undefined ? 'be tried again' : trustList === true ? 'take effect' : 'be installed';
      return { tone: 'strong', text: `${name} would ${outcome}: agent --update-now` };
    case 'up-to-date':
      return trustList === true
        ? { tone: 'good', text: `Nothing to do: ${name} is in effect.` }
        : { tone: 'good', text: 'Nothing to do: the offered version is running.' };
    case 'deferred':
      return { tone: 'attention', text: reason.includes(`${name} is `) ? `${reason}.` : `${name} is deferred.` };
    case 'nothing-offered':
      return { tone: 'good', text: 'Nothing to do: the service offers no update.' };
  }
}

export function renderOutcome(outcome: OperationOutcome, forced: boolean, page: Page): string {
  const { tone, text } = describeOutcome(outcome, forced);
  return renderParagraph(text, page, tone);
}

export function renderDoctor(findings: readonly DoctorFinding[], page: Page): string {
  const width = Math.max(0, ...findings.map(({ name }) => name.length));
  const rows = findings.map((found): Row => {
    const { name, detail, advice } = found;
    const level = levelOf(found);
    const { label, tone } = levels[level];
    const paragraphs = level === 'ok' || advice === undefined ? [detail] : [detail, advice];
    return { label: `${label}  ${name.padEnd(width)}`, paragraphs, tone };
  });
  const count = (level: DoctorLevel): number => findings.filter((found) => levelOf(found) === level).length;
  const [failed, warned] = [count('failure'), count('warning')];
  const warnings = warned === 0 ? '' : `, ${pluralize(warned, 'warning')}`;
  const failures = failed === 0 ? '' : `, ${failed} failed`;
  const summary = `${pluralize(findings.length, 'check')}: ${count('ok')} ok${warnings}${failures}.`;
  const worst = failed > 0 ? 'bad' : warned > 0 ? 'attention' : 'good';
  return `${renderRows(rows, page)}${renderParagraph(summary, page, worst)}`;
}

type DoctorLevel = 'ok' | 'warning' | 'failure';

const levels: Readonly<Record<DoctorLevel, { readonly label: string; readonly tone: Row['tone'] }>> = {
  ok: { label: 'ok  ', tone: undefined },
  warning: { label: 'WARN', tone: 'attention' },
  failure: { label: 'FAIL', tone: 'bad' },
};

function levelOf({ ok, isWarning }: DoctorFinding): DoctorLevel {
  if (!ok) return 'failure';
  return isWarning === true ? 'warning' : 'ok';
}

/** Renders an error for stderr: the failure and its remedy. */
export function renderError({ code, message, advice }: ReportedError, { columns, paint }: Page): string {
  const prefix = 'agent: ';
  const told = wrap(code === 'usage' ? message : `${message} (${code})`, columns - prefix.length);
  const advised = advice === undefined ? [] : wrap(advice, columns - prefix.length);
  return [...told.map((line) => paint('bad', line)), ...advised]
    .map((line, index) => `${index === 0 ? prefix : ' '.repeat(prefix.length)}${line}\n`)
    .join('');
}
