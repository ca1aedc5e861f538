import { headlineOf } from '../../control/presentation/headline.ts';
import { formatTime } from '../../control/presentation/time.ts';
import type { StatusReport } from '../../control/reports.ts';
import type { Snapshot } from '../live/page-data.ts';
import { html } from './html.ts';
import type { Html } from './html.ts';
import { renderParts } from './parts.ts';
import type { PartName, Parts } from './parts.ts';

/** The sections below the first card with their titles; two columns if there is room. */
const columns: readonly (readonly (readonly [PartName, string])[])[] = [
  [
    ['slots', 'Slots'],
    ['boards', 'Boards'],
    ['sensors', 'Sensors'],
  ],
  [
    ['facts', 'Details'],
    ['history', 'History'],
    ['log', 'Security log'],
  ],
];

/** The forms of a viewer. Each is omitted if this viewer may not use it. */
export interface ViewerForms {
  /** The result of the last action. */
  readonly said?: Html | undefined;
  /** The button for the suggested next step, in the first card. */
  readonly step?: Html | undefined;
  readonly others?: Html | undefined;
  /** The button that ends the session. */
  readonly leave?: Html | undefined;
}

/** Returns the whole page for a viewer. */
export function document(snapshot: Snapshot, { said, step, others, leave }: ViewerForms): Html {
  const { status, when } = snapshot;
  const { label, serialNumber, thingId } = status;
  const parts = renderParts(snapshot);
  const name = nameOf(status);
  const thing = thingId === undefined ? 'not activated' : `Thing ID ${thingId}`;
  const main = html`<header>
      <p class="name">${name}</p>
      <p>${label === undefined || serialNumber === undefined ? thing : `${serialNumber}, ${thing}`}</p>
      ${leave}
    </header>
    <main>
      ${said}
      <section aria-label="State" class="card">
        <div data-part="state" aria-live="polite">${parts.state}</div>
        <div data-part="progress">${parts.progress}</div>
        ${step}
      </section>
      ${others}
      <div class="columns">
        ${columns.map((sections) => html`<div>${sections.map(([part, title]) => section(part, title, parts))}</div>`)}
      </div>
    </main>
    <footer>
      <p data-note>As of ${formatTime(new Date(when.nowMs).toISOString(), when, 'log')}.</p>
      <p>Thing Agent ${status.agentVersion}</p>
    </footer>`;
  return frame(titleOf(snapshot), main, true);
}

/** Returns the title of the window. */
export function titleOf({ status, when }: Snapshot): string {
  return `${nameOf(status)}: ${headlineOf(status, when).text}`;
}

function nameOf({ label, serialNumber }: StatusReport): string {
  return label ?? serialNumber ?? 'Gateway';
}

function section(part: PartName, title: string, parts: Parts): Html {
  return html`<section aria-labelledby="title-${part}">
    <h2 id="title-${part}">${title}</h2>
    <div data-part="${part}">${parts[part]}</div>
  </section>`;
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
