import { createHash } from 'node:crypto';

import type { Message } from '../../control/presentation/rows/row.ts';
import type { StatusReport } from '../../control/reports.ts';
import type { Diagnostics } from '../access/sessions.ts';
import { html, table } from '../show/html.ts';
import type { Content, Html } from '../show/html.ts';
import type { PageOperation } from './actions.ts';

/** The operations that make sense now. Others are hidden, and refused if asked for. */
export function availableOperations(status: StatusReport): readonly PageOperation[] {
  const { activity, phase, hold } = status;
  const isBusy = activity !== undefined;
  const isOnTrial = phase === 'trial';
  return [
    ...(isBusy ? ([] as const) : (['update', 'install'] as const)),
    ...(isBusy || phase === 'staging' || phase === 'staged' ? (['cancel'] as const) : []),
    hold === undefined ? 'hold' : 'resume',
    ...((hasWayBack(status) && phase !== 'rolling-back') || isOnTrial ? (['rollback'] as const) : []),
  ];
}

/** Returns the name of the suggested next step in the list of what is possible now. */
export function stepOf({ toDo }: StatusReport): string | undefined {
  return toDo?.operation === undefined ? undefined : `step-${toDo.operation}`;
}

/** Returns the digest of the blocked release that the page names as the next step. */
export function blockedDigest({ toDo, quarantine }: StatusReport): string {
  return quarantine.find(({ version, digest }) => [version, digest].includes(toDo?.version ?? ''))?.digest ?? '';
}

/**
 * Returns a digest of the versions that a rollback would replace and start, to compare them with those on the page, which
 * shows their names cut and escaped.
 */
export function rollbackVersions(status: StatusReport): string {
  const { running, phase, previous } = status;
  const versions = [running?.version, phase === 'trial', previous?.digest ?? rollbackTarget(status)];
  return createHash('sha256').update(JSON.stringify(versions)).digest('hex');
}

/** True if a rollback is possible: also to a slot that no agent installed, such as the factory image. */
function hasWayBack({ previous, slotStates, booted }: StatusReport): boolean {
  const others = Object.entries(slotStates ?? {}).filter(([slot]) => slot !== booted);
  return previous !== undefined || others.some(([, { bootable }]) => bootable);
}

/** Returns the name of the version that a rollback would start. */
function rollbackTarget({ previous, slotStates, booted }: StatusReport): string {
  const other = Object.entries(slotStates ?? {}).find(([slot]) => slot !== booted)?.[1];
  const unnamed = other?.isFactory === true ? 'the factory image' : 'the previous version';
  return previous?.versionName ?? other?.version ?? unnamed;
}

/** The forms of an operator; `token` shows that they come from this page. */
export function actionForms(status: StatusReport, token: string): Html {
  const possible = availableOperations(status);
  const back = status.phase === 'trial' ? 'end the trial' : `roll back to ${rollbackTarget(status)}`;
  const only = (name: PageOperation, content: Html): Html =>
    html`<div data-can="${name}" ${possible.includes(name) ? undefined : hidden}>${content}</div>`;
  return html`<section aria-labelledby="title-actions" class="actions">
    <h2 id="title-actions">Actions</h2>
    <div class="buttons">
      ${only('update', form('update', token, html`<button class="main">Check for updates</button>`))}
      ${only('cancel', form('cancel', token, html`<button>Cancel</button>`))}
      ${only('resume', form('resume', token, html`<button>Resume updates</button>`))}
      ${form('doctor', token, html`<button>Run diagnostics</button>`)}
      <form method="post" action="support-bundle">
        <input type="hidden" name="token" value="${token}" />
        <button>Download support bundle</button>
      </form>
    </div>
    ${only('hold', folded('hold', 'Hold updates', form('hold', token, holdFields)))}
    ${only('install', folded('install', 'Install a file', installForm(token)))}
    ${only('rollback', folded('rollback', 'Roll back', form('rollback', token, rollbackFields(back, rollbackVersions(status)))))}
  </section>`;
}

type Step = NonNullable<NonNullable<StatusReport['toDo']>['operation']>;

const stepLabels: Readonly<Record<Step, string>> = {
  commit: 'Commit now',
  reboot: 'Reboot now',
  resume: 'Resume updates',
  unblock: 'Try again',
  update: 'Check and install now',
};

/** The button for the suggested next step; the others are hidden until the state changes. */
export function stepForms(status: StatusReport, token: string): Html {
  const suggested = stepOf(status);
  const blocked = html`<input type="hidden" name="version" value="${blockedDigest(status)}" />`;
  const steps = Object.entries(stepLabels).map(
    ([step, label]) =>
      html`<div data-can="step-${step}" ${suggested === `step-${step}` ? undefined : hidden}>
        ${form(step, token, html`${step === 'unblock' && blocked}<button class="main">${label}</button>`)}
      </div>`,
  );
  return html`<div class="step">${steps}</div>`;
}

/** The last diagnostics that this operator ran. */
export function diagnostics({ findings, at }: Diagnostics): Html {
  const rows = findings.map(({ name, ok, isWarning, detail, advice }) => {
    const isFine = ok && isWarning !== true;
    return html`<tr class="${isFine ? 'plain' : 'attention'}">
      <td>${ok ? (isFine ? 'ok' : 'warn') : 'failed'}</td>
      <th scope="row">${name}</th>
      <td>
        <p>${detail}</p>
        ${!isFine && advice !== undefined && html`<p>${advice}</p>`}
      </td>
    </tr>`;
  });
  return html`<section aria-labelledby="title-diagnostics">
    <h2 id="title-diagnostics">Diagnostics</h2>
    <p class="none">${at}</p>
    ${table(['Result', 'Test', 'Finding'], rows)}
  </section>`;
}

const hidden = html`hidden`;

function form(operation: string, token: string, fields: Content): Html {
  return html`<form method="post" action="do">
    <input type="hidden" name="token" value="${token}" />
    <input type="hidden" name="operation" value="${operation}" />
    ${fields}
  </form>`;
}

function folded(name: string, title: string, content: Html): Html {
  return html`<details id="do-${name}">
    <summary>${title}</summary>
    ${content}
  </details>`;
}

const holdFields = html`<p>Updates are paused until then. A running trial is not affected.</p>
  <label for="duration">For</label>
  <select id="duration" name="duration">
    <option value="1h">one hour</option>
    <option value="4h" selected>four hours</option>
    <option value="1d">one day</option>
    <option value="7d">one week</option>
    <option value="">until resumed</option>
  </select>
  <label for="reason">Reason</label>
  <input id="reason" name="reason" maxlength="200" autocomplete="off" />
  <button>Hold</button>`;

function rollbackFields(back: string, versions: string): Html {
  return html`<input type="hidden" name="versions" value="${versions}" />
    <p>The gateway reboots to ${back}, and its boards are rolled back with it.</p>
    <label class="check"><input type="checkbox" name="confirm" value="yes" required /> Yes, ${back}</label>
    <button class="grave">Roll back</button>`;
}

/**
 * The form that installs a file. The script sends it, so that the server does not have to parse a form of several
 * parts.
 */
function installForm(token: string): Html {
  return html`<form data-install="${token}">
    <p>An artifact or an image. It is verified like a release from the service.</p>
    <label for="file">File, chosen or dropped here</label>
    <input id="file" type="file" required />
    <button>Install</button>
    <progress max="100" value="0" aria-label="Sent to the gateway" hidden></progress>
    <p role="status" data-sent></p>
    <noscript><p>Without JavaScript: agent install FILE, on the gateway.</p></noscript>
  </form>`;
}

/** Renders the result of the last action. It gets the focus, so that a screen reader reads it immediately. */
export function resultNotice({ tone, text, advice }: Message): Html {
  const told = advice === undefined ? text : `${text} ${advice}`;
  return html`<p class="result ${tone}" role="status" tabindex="-1" autofocus>${told}</p>`;
}
