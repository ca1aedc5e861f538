import { formatBytes } from '../../control/presentation/bytes.ts';
import { headlineOf } from '../../control/presentation/headline.ts';
import { phaseTitles } from '../../control/presentation/phases.ts';
import { boardRows } from '../../control/presentation/rows/board-rows.ts';
import { describeAttempt, stepRows } from '../../control/presentation/rows/history-rows.ts';
import type { HistoryEntry } from '../../control/presentation/rows/history-rows.ts';
import type { Row, Message } from '../../control/presentation/rows/row.ts';
import { securityRows } from '../../control/presentation/rows/security-rows.ts';
import { statusRows } from '../../control/presentation/rows/status-rows.ts';
import { formatTime } from '../../control/presentation/time.ts';
import type { When } from '../../control/presentation/time.ts';
import type { Activity } from '../../control/reports.ts';
import type { Snapshot } from '../live/page-data.ts';
import { html } from './html.ts';
import type { Html } from './html.ts';
import { sensorCards } from './sensor-cards.ts';

/** The parts of the page that update automatically, in their order. All viewers see the same. */
export const partNames = ['state', 'progress', 'facts', 'slots', 'boards', 'sensors', 'history', 'log'] as const;
export type PartName = (typeof partNames)[number];
export type Parts = Readonly<Record<PartName, Html>>;

const MAX_ATTEMPTS = 12;
const MAX_EVENTS = 12;

/** Rows that are shown in parts of their own, not among the facts. */
const elsewhere: ReadonlySet<string> = new Set(['State', 'Now', 'Boards', 'Running']);
/** The most important rows. */
const notices: ReadonlySet<string> = new Set(['Warning', 'Hold', 'Reboot', 'Consent']);

export function renderParts(snapshot: Snapshot, when: When): Parts {
  const { status, sensors, traces } = snapshot;
  const rows = statusRows(status, when).filter(
    ({ paragraphs, label }) => paragraphs.length > 0 && !elsewhere.has(label),
  );
  return {
    state: stateOf(snapshot, rows, when),
    progress: progressOf(status.activity),
    facts: definitions(rows.filter(({ label }) => !notices.has(label))),
    slots: slotsOf(snapshot),
    boards: boardsOf(boardRows(status.boards, when)),
    sensors: sensorCards(sensors, traces),
    history: historyOf(snapshot, when),
    log: logOf(snapshot, when),
  };
}

export function sentenceOf({ status }: Pick<Snapshot, 'status'>, when: When): Message {
  return headlineOf(status, when);
}

function stateOf({ status, lastEnd }: Snapshot, rows: readonly Row[], when: When): Html {
  const { tone, text } = sentenceOf({ status }, when);
  const shown = rows.filter(({ label }) => notices.has(label));
  return html`<div class="state ${tone}">
    <h1>${text}</h1>
    <p>${status.idleReason}</p>
    ${
      lastEnd !== undefined &&
      status.activity === undefined &&
      html`<p class="end">${clockTime(lastEnd.atMs, when)}: ${lastEnd.said.text}</p>`
    }
    ${shown.length > 0 && html`<div class="notices">${shown.map(notice)}</div>`}
  </div>`;
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
  if (doneBytes === undefined)
    return html`<div class="progress">
      <p>${title}</p>
      <progress aria-label="${title}"></progress>
    </div>`;
  if (totalBytes === undefined || totalBytes <= 0) {
    const told = `${title}: ${formatBytes(doneBytes)}`;
    return html`<div class="progress">
      <p>${told}</p>
      <progress aria-label="${title}"></progress>
    </div>`;
  }
  const percent = Math.floor(Math.min(1, doneBytes / totalBytes) * 100);
  return html`<div class="progress">
    <p>${title}: ${formatBytes(doneBytes)} of ${formatBytes(totalBytes)}, ${percent} %</p>
    <progress max="100" value="${percent}" aria-label="${title}">${percent} %</progress>
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

function slotsOf({ status }: Snapshot): Html {
  const { slots, slotStates, booted } = status;
  const names = Object.keys(slots ?? {});
  if (names.length === 0) return html`<p class="none">This gateway has no slots.</p>`;
  const rows = names.map((name) => {
    const facts = slotStates?.[name];
    const marks = [
      ...(name === booted ? ['runs'] : []),
      ...(facts?.bootsNext === true ? ['boots next'] : []),
      ...(facts?.bootable === false ? ['cannot boot'] : []),
    ];
    return html`<tr>
      <th scope="row">${name}</th>
      <td>${slots?.[name]}</td>
      <td>${marks.join(', ')}</td>
    </tr>`;
  });
  return html`<table>
    <thead>
      <tr>
        <th scope="col">Slot</th>
        <th scope="col">State</th>
        <th scope="col">Now</th>
      </tr>
    </thead>
    <tbody>
      ${rows}
    </tbody>
  </table>`;
}

function boardsOf(rows: readonly Row[]): Html {
  if (rows.length === 0) return html`<p class="none">No board is configured.</p>`;
  return html`<table>
    <thead>
      <tr>
        <th scope="col">Board</th>
        <th scope="col">How it is</th>
      </tr>
    </thead>
    <tbody>
      ${rows.map(
        ({ label, paragraphs, tone }) =>
          html`<tr class="${tone ?? 'plain'}">
            <th scope="row">${label}</th>
            <td>${paragraphs.map((text) => html`<p>${text}</p>`)}</td>
          </tr>`,
      )}
    </tbody>
  </table>`;
}

function historyOf({ history: { attempts, discarded } }: Snapshot, when: When): Html {
  if (attempts.length === 0) return html`<p class="none">Nothing was installed by this agent yet.</p>`;
  const shown = attempts.slice(-MAX_ATTEMPTS).toReversed();
  const more = attempts.length - shown.length + discarded;
  return html`<ol class="history" reversed>
      ${shown.map((told) => attemptOf(told, when))}
    </ol>
    ${more > 0 && html`<p class="none">${more} before these; agent history shows those that are kept.</p>`}`;
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
        <summary>Step by step</summary>
        ${definitions(steps)}
      </details>`
    }
  </li>`;
}

function logOf({ security }: Snapshot, when: When): Html {
  if (security.events.length === 0) return html`<p class="none">Nothing that concerned security has happened.</p>`;
  const rows = securityRows({ ...security, events: security.events.slice(-MAX_EVENTS).toReversed() }, when);
  const more = security.events.length - rows.length + security.discarded;
  return html`${definitions(rows)}
  ${more > 0 && html`<p class="none">${more} before these; agent log --security shows those that are kept.</p>`}`;
}
