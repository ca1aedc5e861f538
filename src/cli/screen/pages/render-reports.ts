import type { OperationOutcome, ReportedError } from '../../../control/events.ts';
import { pluralize } from '../../../control/presentation/counted.ts';
import { describeOutcome } from '../../../control/presentation/outcome.ts';
import type { Row, Message } from '../../../control/presentation/rows/row.ts';
import { describeInstalled } from '../../../control/presentation/rows/status-rows.ts';
import { formatTime } from '../../../control/presentation/time.ts';
import type { CheckReport, DoctorFinding } from '../../../control/reports.ts';
import { renderParagraph, renderRows, wrap } from '../layout.ts';
import type { Page } from '../page.ts';

/** `advice`: what to do about the end of the last attempt of this version. */
export function renderCheck(report: CheckReport, page: Page, advice?: string): string {
  const { offered } = report;
  const plan = describePlan(report);
  const rows: readonly Row[] = [
    { label: 'Plan', paragraphs: [plan.text, report.reason].filter((text) => text !== ''), tone: plan.tone },
    { label: 'Last try', paragraphs: describeTry(report, page, advice), tone: 'attention' },
    { label: 'Offered', paragraphs: offered === undefined ? ['nothing'] : [`${offered.name} (id ${offered.id})`] },
    { label: '', paragraphs: offered?.description === undefined ? [] : [offered.description] },
    { label: 'Installed', paragraphs: describeInstalled(report.installed, page) },
  ];
  return renderRows(rows, page);
}

function describeTry({ lastAttempt }: CheckReport, page: Page, advice: string | undefined): readonly string[] {
  if (lastAttempt === undefined) return [];
  const { outcome, code, reason, at } = lastAttempt;
  return [
    `${outcome.replace('-', ' ')}, ${formatTime(at, page) ?? at}: ${reason} (${code})`,
    ...(advice === undefined ? [] : [`before it is tried again: ${advice}`]),
    'its steps: agent log last',
  ];
}

function describePlan({ plan, offered, trustList }: CheckReport): Message {
  const name = offered?.name ?? 'the offered version';
  switch (plan) {
    case 'install':
      return {
        tone: 'strong',
        text: `${name} would ${trustList === true ? 'take effect' : 'be installed'}: agent --update-now`,
      };
    case 'up-to-date':
      return trustList === true
        ? { tone: 'good', text: `Nothing to do: ${name} is in effect.` }
        : { tone: 'good', text: 'Nothing to do: what is installed is what the service names.' };
    case 'deferred':
      return { tone: 'attention', text: `${name} is held back.` };
    case 'nothing-offered':
      return { tone: 'good', text: 'Nothing to do: the service offers nothing.' };
  }
}

export function renderOutcome(outcome: OperationOutcome, forced: boolean, page: Page): string {
  const { tone, text } = describeOutcome(outcome, forced);
  return renderParagraph(text, page, tone);
}

export function renderDoctor(findings: readonly DoctorFinding[], page: Page): string {
  const width = Math.max(0, ...findings.map(({ name }) => name.length));
  const failed = findings.filter(({ ok }) => !ok).length;
  const rows = findings.map(({ name, ok, detail, advice }): Row => {
    const paragraphs = ok || advice === undefined ? [detail] : [detail, advice];
    return { label: `${ok ? 'ok  ' : 'FAIL'}  ${name.padEnd(width)}`, paragraphs, tone: ok ? undefined : 'bad' };
  });
  const summary =
    failed === 0
      ? `All ${pluralize(findings.length, 'test')} passed.`
      : `${failed} of ${pluralize(findings.length, 'test')} failed.`;
  return `${renderRows(rows, page)}${renderParagraph(summary, page, failed === 0 ? 'good' : 'bad')}`;
}

/** Renders an error for stderr: what failed, and what to do. */
export function renderError({ code, message, advice }: ReportedError, { columns, paint }: Page): string {
  const prefix = 'agent: ';
  const told = wrap(code === 'usage' ? message : `${message} (${code})`, columns - prefix.length);
  const advised = advice === undefined ? [] : wrap(advice, columns - prefix.length);
  return [...told.map((line) => paint('bad', line)), ...advised]
    .map((line, index) => `${index === 0 ? prefix : ' '.repeat(prefix.length)}${line}\n`)
    .join('');
}
