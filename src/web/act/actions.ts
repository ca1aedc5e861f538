import { permitted } from '../../control/access.ts';
import { reportError } from '../../control/control-errors.ts';
import { checkInput } from '../../control/find-operation.ts';
import { operationTable } from '../../control/operations.ts';
import { describeHold, sentence } from '../../control/presentation/headline.ts';
import { describeOutcome } from '../../control/presentation/outcome.ts';
import type { Message } from '../../control/presentation/rows/row.ts';
import { formatTime } from '../../control/presentation/time.ts';
import { holdReport } from '../../control/reports.ts';
import { answer, follow } from '../../control/server/perform.ts';
import { AgentError, describeError } from '../../system/errors.ts';
import { parseDuration } from '../../system/time/duration.ts';
import type { Diagnostics } from '../access/sessions.ts';
import type { PageDeps } from '../page-deps.ts';
import { Refusal } from '../page-errors.ts';

/** The actions on the page, with the text that shows that they have begun. */
const begun = {
  update: 'Started an update check. The result is shown here.',
  cancel: 'Cancelling the running operation.',
  hold: 'Pausing updates.',
  resume: 'Resuming updates.',
  rollback: 'Rolling back.',
  install: 'Verifying and installing the file. The result is shown here.',
  commit: 'Committing the trial.',
  reboot: 'Rebooting.',
  unblock: 'Unblocking the version.',
};
export type PageOperation = keyof typeof begun;

function isPageOperation(name: string): name is PageOperation {
  return Object.hasOwn(begun, name);
}

const ANSWER_MS = 60_000;
const DOCTOR_MS = 120_000;
const never = new AbortController().signal;

/** Performs operations with the rights of an operator, as the control socket does. */
export class Actions {
  readonly #deps: PageDeps;

  constructor(deps: PageDeps) {
    this.#deps = deps;
  }

  /**
   * The answer if the operation ends soon, else that it has begun. The operation continues although the browser leaves.
   */
  async submit(name: PageOperation, input: object): Promise<Message> {
    if (name !== 'unblock') return this.resultOrStarted(name, this.perform(name, input));
    const unblocked = await this.perform('unblock', input);
    if (unblocked.tone === 'bad') return unblocked;
    const updated = await this.resultOrStarted('update', this.perform('update', {}));
    return { ...updated, text: `${unblocked.text} ${updated.text}` };
  }

  /** Returns the findings of `agent doctor`. */
  async diagnose(): Promise<Diagnostics | Message> {
    const { clock, localOffset } = this.#deps;
    try {
      const { findings } = await this.#deps.operations.doctor({}, AbortSignal.timeout(DOCTOR_MS));
      const nowMs = clock.nowMs();
      return { at: formatTime(new Date(nowMs).toISOString(), { nowMs, localOffset }, 'log'), findings };
    } catch (error) {
      return this.#failed(error);
    }
  }

  async resultOrStarted(name: PageOperation, end: Promise<Message>): Promise<Message> {
    const { clock, limits } = this.#deps;
    const ended = new AbortController();
    const pause = clock.sleep(limits.quickMs, ended.signal).catch(() => {});
    try {
      return await Promise.race([end, pause.then((): Message => ({ tone: 'strong', text: begun[name] }))]);
    } finally {
      ended.abort();
    }
  }

  /** Runs an operation until it ends. Never rejects: an error becomes a reply, too. */
  async perform(name: PageOperation, input: object): Promise<Message> {
    const entry = operationTable[name];
    try {
      const checked = permitted('operators', { name, entry, parameters: {} }, checkInput(entry, input), []);
      const path = 'path' in checked ? String(checked.path) : undefined;
      this.#deps.log.info({ caller: 'operators', page: true, operation: name, path }, 'request from the web UI');
      if (!('output' in entry)) {
        return describeOutcome(await follow(this.#deps, { name, input: checked }, () => {}, never), false);
      }
      const deadline = AbortSignal.timeout(ANSWER_MS);
      return this.#answered(name, await answer(this.#deps, { name, entry, input: checked }, deadline));
    } catch (error) {
      return this.#failed(error);
    }
  }

  #answered(name: PageOperation, output: object): Message {
    const { clock, localOffset } = this.#deps;
    if (name === 'hold') {
      const held = holdReport.parse(output);
      return { tone: 'attention', text: sentence(describeHold(held, { nowMs: clock.nowMs(), localOffset })) };
    }
    if (name === 'reboot') return { tone: 'strong', text: 'The gateway is rebooting.' };
    if ('versions' in output) return { tone: 'good', text: `${String(output.versions)} may be installed again.` };
    const wasHeld = 'wasHeld' in output && output.wasHeld === true;
    return { tone: 'good', text: wasHeld ? 'Updates resume at the next check.' : 'Updates were not on hold.' };
  }

  #failed(error: unknown): Message {
    if (!(error instanceof AgentError)) {
      this.#deps.log.error({ error: describeError(error) }, 'a request in the web UI failed unexpectedly');
    }
    const { message, code, advice } = reportError(error);
    return { tone: 'bad', text: `${message} (${code}).`, advice };
  }
}

/** The operation and input of a form. Throws Refusal. */
export function orderOf(form: URLSearchParams): { readonly name: PageOperation; readonly input: object } {
  const name = form.get('operation') ?? '';
  if (!isPageOperation(name) || name === 'install') throw new Refusal(400, 'Unknown action.');
  if (name === 'rollback' && form.get('confirm') !== 'yes') throw new Refusal(400, 'Confirm the rollback.');
  if (name === 'unblock') return { name, input: { version: form.get('version') ?? '' } };
  return { name, input: name === 'hold' ? holdOf(form) : {} };
}

function holdOf(form: URLSearchParams): object {
  const reason = (form.get('reason') ?? '').trim();
  const duration = form.get('duration') ?? '';
  const durationMs = parseDuration(duration);
  if (duration !== '' && durationMs === undefined)
    throw new Refusal(400, 'Invalid duration: use for example 4h or 2d.');
  return { ...(durationMs !== undefined && { durationMs }), ...(reason !== '' && { reason }) };
}
