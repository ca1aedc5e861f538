import type { OperationOutcome, ReportedError } from '../../../control/events.ts';
import type { CheckReport, DoctorFinding } from '../../../control/reports.ts';
import { counted } from '../counted.ts';
import { renderParagraph, renderRows, type Row, wrap } from '../layout.ts';
import type { Page } from '../page.ts';
import type { Tone } from '../paint.ts';
import { describeInstalled } from './render-status.ts';

type TakenList = NonNullable<Extract<OperationOutcome, { kind: 'installed' }>['list']>;

export function renderCheck(report: CheckReport, page: Page): string {
  const { offered } = report;
  const plan = describePlan(report);
  const rows: readonly Row[] = [
    { label: 'Plan', paragraphs: [plan.text, report.reason].filter((text) => text !== ''), tone: plan.tone },
    { label: 'Offered', paragraphs: offered === undefined ? ['nothing'] : [`${offered.name} (id ${offered.id})`] },
    { label: '', paragraphs: offered?.description === undefined ? [] : [offered.description] },
    { label: 'Installed', paragraphs: describeInstalled(report.installed, page) },
  ];
  return renderRows(rows, page);
}

function describePlan({ plan, offered }: CheckReport): { readonly tone: Tone; readonly text: string } {
  const name = offered?.name ?? 'the offered version';
  switch (plan) {
    case 'install':
      return { tone: 'strong', text: `${name} would be installed: agent --update-now` };
    case 'up-to-date':
      return { tone: 'good', text: 'Nothing to do: what is installed is what the service names.' };
    case 'held-back':
      return { tone: 'attention', text: `${name} is held back.` };
    case 'nothing-offered':
      return { tone: 'good', text: 'Nothing to do: the service offers nothing.' };
  }
}

/** What an operation came to, in a sentence; `forced` leaves out what forcing would do. */
export function renderOutcome(outcome: OperationOutcome, forced: boolean, page: Page): string {
  const { tone, text } = describeOutcome(outcome, forced);
  return renderParagraph(text, page, tone);
}

function describeOutcome(outcome: OperationOutcome, forced: boolean): { readonly tone: Tone; readonly text: string } {
  const { version } = outcome;
  switch (outcome.kind) {
    case 'up-to-date':
      return { tone: 'good', text: `Nothing to do: ${version} is installed.` };
    case 'installed':
      return {
        tone: 'good',
        text: outcome.list === undefined ? `Done: ${version} is installed.` : describeList(outcome.list),
      };
    case 'reboot-required':
      return {
        tone: 'attention',
        text: `${version} is staged in slot ${outcome.slot}. It starts with the next boot: agent reboot`,
      };
    case 'rebooting':
      return describeReboot(outcome);
    case 'held-back':
      return { tone: 'attention', text: describeHeld(outcome, forced) };
    case 'rolled-back':
      return { tone: 'attention', text: `${version} was rolled back: ${outcome.reason}` };
    case 'cancelled':
      return { tone: 'good', text: `Cancelled: ${version}.` };
    case 'nothing-to-cancel':
      return { tone: 'good', text: 'Nothing to cancel.' };
    case 'flashed':
      return { tone: 'good', text: describeFlashed(outcome) };
  }
}

function describeHeld(
  { version, code, reason }: Extract<OperationOutcome, { kind: 'held-back' }>,
  forced: boolean,
): string {
  if (code === 'outside-reboot-window') return `${version} is staged: ${reason} (${code}). Now: agent reboot`;
  const force = forced ? '' : ' --force installs it all the same.';
  return `${version} is held back: ${reason} (${code}).${force}`;
}

function describeList({ number, keys, revokedKeys, revokedReleases }: TakenList): string {
  const revoked = [
    ...(revokedKeys === 0 ? [] : [counted(revokedKeys, 'key')]),
    ...(revokedReleases === 0 ? [] : [counted(revokedReleases, 'release')]),
  ];
  const news = [
    ...keys.map((name) => `+${name}`),
    ...(revoked.length === 0 ? [] : [`${revoked.join(' and ')} revoked`]),
  ];
  const said = news.length === 0 ? 'it changes nothing' : news.join(', ');
  return `Done: list ${number} is in effect: ${said}.`;
}

function describeFlashed({ board, version, unchanged }: Extract<OperationOutcome, { kind: 'flashed' }>): string {
  return unchanged === true ? `Nothing to do: ${board} holds ${version} already.` : `Done: ${board} runs ${version}.`;
}

function describeReboot({ version, slot, reason, goesBack }: Extract<OperationOutcome, { kind: 'rebooting' }>): {
  readonly tone: Tone;
  readonly text: string;
} {
  if (goesBack !== true) {
    const text = `${version} is staged in slot ${slot}; the gateway reboots into it now. Afterwards: agent status`;
    return { tone: 'strong', text };
  }
  const text = `${version} is left (${reason ?? 'unknown reason'}): the gateway reboots into slot ${slot} now. Afterwards: agent status`;
  return { tone: 'attention', text };
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
      ? `All ${counted(findings.length, 'test')} passed.`
      : `${failed} of ${counted(findings.length, 'test')} failed.`;
  return `${renderRows(rows, page)}${renderParagraph(summary, page, failed === 0 ? 'good' : 'bad')}`;
}

/** What failed and what to do, as it stands on stderr. */
export function renderError({ code, message, advice }: ReportedError, { columns, paint }: Page): string {
  const prefix = 'agent: ';
  const told = wrap(code === 'usage' ? message : `${message} (${code})`, columns - prefix.length);
  const advised = advice === undefined ? [] : wrap(advice, columns - prefix.length);
  return [...told.map((line) => paint('bad', line)), ...advised]
    .map((line, index) => `${index === 0 ? prefix : ' '.repeat(prefix.length)}${line}\n`)
    .join('');
}
