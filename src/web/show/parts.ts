import { headlineParts, percentOf, progressText } from '../../control/presentation/headline.ts';
import { nextStepOf } from '../../control/presentation/next-step.ts';
import { phaseTitles } from '../../control/presentation/phases.ts';
import { boardRows } from '../../control/presentation/rows/board-rows.ts';
import { describeAttempt, stepRows } from '../../control/presentation/rows/history-rows.ts';
import type { HistoryEntry } from '../../control/presentation/rows/history-rows.ts';
import type { Row } from '../../control/presentation/rows/row.ts';
import { securityRows } from '../../control/presentation/rows/security-rows.ts';
import { statusRows } from '../../control/presentation/rows/status-rows.ts';
import { formatTime } from '../../control/presentation/time.ts';
import type { When } from '../../control/presentation/time.ts';
import type { Activity, StatusReport } from '../../control/reports.ts';
import type { Snapshot } from '../live/page-data.ts';
import { html, table } from './html.ts';
import type { Html } from './html.ts';
import { sensorCards } from './sensor-cards.ts';

/** The parts of the page that update automatically, in their order. All viewers see the same. */
export const partNames = ['state', 'progress', 'facts', 'slots', 'boards', 'sensors', 'history', 'log'] as const;
export type PartName = (typeof partNames)[number];
export type Parts = Readonly<Record<PartName, Html>>;

const MAX_ATTEMPTS = 12;
const MAX_EVENTS = 12;

/** Rows that are shown elsewhere, not among the details. */
const elsewhere: ReadonlySet<string> = new Set(['State', 'To do', 'Updates', 'Boards']);
/** The most important rows. */
const notices: ReadonlySet<string> = new Set(['Warning', 'Hold', 'Reboot', 'Consent']);

const isOfSlot = ({ label }: Row): boolean => label.startsWith('Slot ');

export function renderParts(snapshot: Snapshot): Parts {
  const { status, sensors, traces, when } = snapshot;
  const all = statusRows(status, when).filter(({ paragraphs }) => paragraphs.length > 0);
  const rows = all.filter(({ label }) => !elsewhere.has(label));
  return {
    state: stateOf(snapshot, all),
    progress: progressOf(status.activity),
    facts: definitions(rows.filter((row) => !notices.has(row.label) && !isOfSlot(row))),
    slots: slotsOf(rows.filter(isOfSlot)),
    boards: boardsOf(boardRows(status.boards, when)),
    sensors: sensorCards(sensors, traces),
    history: historyOf(snapshot),
    log: logOf(snapshot),
  };
}

/** The first card. The bar shows the progress, so that there is one figure only. */
function stateOf({ status, lastEnd, when }: Snapshot, rows: readonly Row[]): Html {
  const { tone, running, matter } = headlineParts(withoutProgress(status), when);
  const { isNeeded, text } = status.toDo ?? nextStepOf(status);
  const shown = rows.filter(({ label }) => notices.has(label));
  const reasons = rows.find(({ label }) => label === 'Updates')?.paragraphs ?? [];
  return html`<div class="state ${tone}">
    <h1>${running}</h1>
    <p class="matter">${matter}</p>
    <p class="${isNeeded ? 'to-do needed' : 'to-do'}"><strong>To do:</strong> ${text}</p>
    ${reasons.map((text) => html`<p>${text}.</p>`)}
    <p>${powerText(status)}</p>
    ${
      lastEnd !== undefined &&
      status.activity === undefined &&
      html`<p class="end">${clockTime(lastEnd.atMs, when)}: ${lastEnd.said.text}</p>`
    }
    ${shown.length > 0 && html`<div class="notices">${shown.map(notice)}</div>`}
  </div>`;
}

function withoutProgress(status: StatusReport): StatusReport {
  const { activity } = status;
  return activity === undefined ? status : { ...status, activity: { ...activity, doneBytes: undefined } };
}

/** Returns whether you may switch the gateway off now. */
function powerText({ boards, activity, phase, telemetry }: StatusReport): string {
  const half = boards.filter(({ writing }) => writing !== undefined).map(({ name }) => name);
  if (activity !== undefined && half.length > 0)
    return `Keep the power on: ${half.join(', ')} is being flashed. After a power loss, the agent flashes it again.`;
  if (phase === 'trial') return 'Safe to power off, but an interrupted trial is rolled back, and repeated later.';
  const isWaiting = (telemetry?.spool.pointsInMemory ?? 0) > 0;
  const except = isWaiting ? ', except for readings of the last seconds: first run agent queue sync' : '';
  const resumes = activity === undefined ? '' : ' An interrupted update resumes at the next start.';
  return `Safe to power off${except}.${resumes}`;
}

function clockTime(atMs: number, when: When): string {
  return formatTime(new Date(atMs).toISOString(), when);
}

function notice({ label, paragraphs }: Row): Html {
  return html`<div>
    <h2>${label}</h2>
    ${paragraphs.map((text) => html`<p>${text}</p>`)}
  </div>`;
}

/** The progress of the running operation; empty if none runs. */
export function progressOf(activity: Activity | undefined): Html {
  if (activity?.phase === undefined) return html``;
  const { phase, board, doneBytes, totalBytes } = activity;
  const title = board === undefined ? phaseTitles[phase] : `${phaseTitles[phase]} ${board}`;
  const isMeasured = doneBytes !== undefined && totalBytes !== undefined && totalBytes > 0;
  const text = `${title}${progressText(activity)}`;
  return html`<div class="progress">
    <p>${text}</p>
    ${
      isMeasured
        ? html`<progress max="100" value="${percentOf(doneBytes, totalBytes)}" aria-label="${title}"></progress>`
        : html`<progress aria-label="${title}"></progress>`
    }
  </div>`;
}

function definitions(rows: readonly Row[]): Html {
  return html`<dl>
    ${rows.map(
      ({ label, paragraphs, tone }) =>
        html`<div class="${tone ?? 'plain'}">
          <dt>${label}</dt>
          ${paragraphs.map((text) => html`<dd>${text}</dd>`)}
        </div>`,
    )}
  </dl>`;
}

function slotsOf(rows: readonly Row[]): Html {
  return rows.length === 0 ? html`<p class="none">This gateway has no slots.</p>` : definitions(rows);
}

function boardsOf(rows: readonly Row[]): Html {
  if (rows.length === 0) return html`<p class="none">No boards are configured.</p>`;
  return table(
    ['Board', 'State'],
    rows.map(
      ({ label, paragraphs, tone }) =>
        html`<tr class="${tone ?? 'plain'}">
          <th scope="row">${label}</th>
          <td>${paragraphs.map((text) => html`<p>${text}</p>`)}</td>
        </tr>`,
    ),
  );
}

function historyOf({ history: { attempts, discarded }, when }: Snapshot): Html {
  if (attempts.length === 0) return html`<p class="none">No update attempts yet.</p>`;
  const shown = attempts.slice(-MAX_ATTEMPTS).toReversed();
  const more = attempts.length - shown.length + discarded;
  return html`<ol class="history" reversed>
      ${shown.map((told) => attemptOf(told, when))}
    </ol>
    ${more > 0 && html`<p class="none">${more} earlier attempts: agent history</p>`}`;
}

function attemptOf(told: HistoryEntry, when: When): Html {
  const [first, ...rest] = describeAttempt(told, when);
  const steps = stepRows(told, when);
  return html`<li class="${told.outcome === 'installed' || told.outcome === undefined ? 'plain' : 'attention'}">
    <p>${first}</p>
    ${rest.map((text) => html`<p class="more">${text}</p>`)}
    ${
      steps.length > 0 &&
      html`<details id="attempt-${told.attempt.replaceAll(/[^\w-]/g, '')}">
        <summary>Steps</summary>
        ${definitions(steps)}
      </details>`
    }
  </li>`;
}

function logOf({ security, when }: Snapshot): Html {
  if (security.events.length === 0) return html`<p class="none">No security events.</p>`;
  const rows = securityRows({ ...security, events: security.events.slice(-MAX_EVENTS).toReversed() }, when);
  const more = security.events.length - rows.length + security.discarded;
  return html`${definitions(rows)} ${more > 0 && html`<p class="none">${more} earlier events: agent log --security</p>`}`;
}
