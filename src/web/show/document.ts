import { formatTime } from '../../control/presentation/time.ts';
import type { When } from '../../control/presentation/time.ts';
import type { StatusReport } from '../../control/reports.ts';
import { html } from './html.ts';
import type { Html } from './html.ts';
import type { PartName, Parts } from './parts.ts';

const titles: Readonly<Record<Exclude<PartName, 'state' | 'progress'>, string>> = {
  facts: 'Facts',
  slots: 'Slots',
  boards: 'Boards',
  sensors: 'Sensors',
  history: 'History',
  log: 'Security log',
};

export interface DocumentContent {
  readonly status: StatusReport;
  readonly title: string;
  readonly parts: Parts;
  readonly atMs: number;
  /** The forms of this viewer, or undefined if read-only. */
  readonly actions: Html | undefined;
  /** The button that ends the session, or undefined. */
  readonly leave: Html | undefined;
}

/** Returns the whole page for a viewer. */
export function document({ status, title, parts, atMs, actions, leave }: DocumentContent, when: When): Html {
  const { serialNumber, thingId } = status;
  const name = serialNumber ?? 'Gateway';
  const main = html`<header>
      <p class="name">${name}</p>
      <p>${thingId === undefined ? 'not activated' : `thing ${thingId}`}</p>
      ${leave}
    </header>
    <main>
      <section aria-label="State">
        <div data-part="state" aria-live="polite">${parts.state}</div>
        <div data-part="progress">${parts.progress}</div>
      </section>
      ${actions} ${sections(parts)}
    </main>
    <footer>
      <p data-note>As of ${formatTime(new Date(atMs).toISOString(), when, 'log')}.</p>
      <p>Thing Agent ${status.agentVersion}</p>
    </footer>`;
  return frame(`${name}: ${title}`, main, true);
}

function sections(parts: Parts): Html {
  return html`${entriesOf(titles).map(
    ([part, title]) =>
      html`<section aria-labelledby="title-${part}">
        <h2 id="title-${part}">${title}</h2>
        <div data-part="${part}">${parts[part]}</div>
      </section>`,
  )}`;
}

function entriesOf<Key extends string>(table: Readonly<Record<Key, string>>): readonly (readonly [Key, string])[];
function entriesOf(table: Readonly<Record<string, string>>): readonly (readonly [string, string])[] {
  return Object.entries(table);
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
