import { formatTime } from '../../control/presentation/time.ts';
import type { When } from '../../control/presentation/time.ts';
import type { StatusReport } from '../../control/reports.ts';
import { html } from './html.ts';
import type { Html } from './html.ts';
import type { PartName, Parts } from './parts.ts';

type SectionName = Exclude<PartName, 'state' | 'progress'>;

const titles: Readonly<Record<SectionName, string>> = {
  facts: 'Details',
  slots: 'Slots',
  boards: 'Boards',
  sensors: 'Sensors',
  history: 'History',
  log: 'Security log',
};

/** The sections below the first card; two columns if there is room. */
const columns: readonly (readonly SectionName[])[] = [
  ['slots', 'boards', 'sensors'],
  ['facts', 'history', 'log'],
];

/** The forms of an operator. */
export interface ViewerForms {
  /** The result of the last action. */
  readonly said: Html | undefined;
  /** The button for the suggested next step, in the first card. */
  readonly step: Html | undefined;
  readonly others: Html | undefined;
}

export interface DocumentContent {
  readonly status: StatusReport;
  readonly title: string;
  readonly parts: Parts;
  readonly atMs: number;
  /** The forms of this viewer, or undefined if read-only. */
  readonly actions: ViewerForms | undefined;
  /** The button that ends the session, or undefined. */
  readonly leave: Html | undefined;
}

/** Returns the whole page for a viewer. */
export function document({ status, title, parts, atMs, actions, leave }: DocumentContent, when: When): Html {
  const { label, serialNumber, thingId } = status;
  const name = nameOf(status);
  const thing = thingId === undefined ? 'not activated' : `Thing ID ${thingId}`;
  const main = html`<header>
      <p class="name">${name}</p>
      <p>${label === undefined || serialNumber === undefined ? thing : `${serialNumber}, ${thing}`}</p>
      ${leave}
    </header>
    <main>
      ${actions?.said}
      <section aria-label="State" class="card">
        <div data-part="state" aria-live="polite">${parts.state}</div>
        <div data-part="progress">${parts.progress}</div>
        ${actions?.step}
      </section>
      ${actions?.others}
      <div class="columns">${columns.map((names) => html`<div>${sections(names, parts)}</div>`)}</div>
    </main>
    <footer>
      <p data-note>As of ${formatTime(new Date(atMs).toISOString(), when, 'log')}.</p>
      <p>Thing Agent ${status.agentVersion}</p>
    </footer>`;
  return frame(`${name}: ${title}`, main, true);
}

/** Returns the name of the gateway. */
export function nameOf({ label, serialNumber }: StatusReport): string {
  return label ?? serialNumber ?? 'Gateway';
}

function sections(names: readonly SectionName[], parts: Parts): Html {
  return html`${names.map(
    (part) =>
      html`<section aria-labelledby="title-${part}">
        <h2 id="title-${part}">${titles[part]}</h2>
        <div data-part="${part}">${parts[part]}</div>
      </section>`,
  )}`;
}

/** The frame of every page. Without JavaScript a page that is followed reloads itself. */
export function frame(title: string, content: Html, isFollowed = false): Html {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>${title}</title>
        <link rel="icon" href="data:," />
        <link rel="stylesheet" href="page.css" />
        ${
          isFollowed &&
          html`<script src="page.js" defer></script>
            <noscript><meta http-equiv="refresh" content="30" /></noscript>`
        }
      </head>
      <body>
        ${content}
      </body>
    </html>`;
}
