import type { IncomingMessage, ServerResponse } from 'node:http';

import type { StatusReport } from '../control/reports.ts';
import { AgentError, describeError } from '../system/errors.ts';
import { openNamedFile } from '../system/files/opened-file.ts';
import type { AccessControl } from './access/access-control.ts';
import { requireKnownHost, requireSameOrigin } from './access/same-origin.ts';
import type { Session } from './access/sessions.ts';
import { addressOf } from './access/shares.ts';
import { actionForms, diagnostics, resultNotice, rollbackVersions, stepForms } from './act/action-forms.ts';
import { orderOf } from './act/actions.ts';
import type { Actions } from './act/actions.ts';
import type { Uploads } from './act/upload.ts';
import type { Assets } from './assets.ts';
import type { LiveUpdates } from './live/live-updates.ts';
import type { PageDeps } from './page-deps.ts';
import { Refusal } from './page-errors.ts';
import { document, frame } from './show/document.ts';
import type { ViewerForms } from './show/document.ts';
import { loginPage, logoutForm, readForm } from './show/forms.ts';
import { html } from './show/html.ts';
import type { Html } from './show/html.ts';

const NOT_OUR_NAME = 421;

export interface RoutesDeps extends PageDeps {
  readonly door: AccessControl;
  readonly assets: Assets;
  readonly news: LiveUpdates;
  readonly orders: Actions;
  readonly files: Uploads;
  /** Called when a request is complete, or may take its time: a new connection no longer replaces this one. */
  readonly asked: (request: IncomingMessage) => void;
}

export interface Reply {
  readonly status: number;
  readonly type: string;
  readonly body: string | Buffer;
  readonly more?: Readonly<Record<string, string>>;
}

/** Answers the requests for the page and its parts. */
export class Routes {
  readonly #deps: RoutesDeps;

  constructor(deps: RoutesDeps) {
    this.#deps = deps;
  }

  /** The reply, or undefined if it is a continuing stream. */
  async answer(request: IncomingMessage, response: ServerResponse): Promise<Reply | undefined> {
    try {
      const { place, settings } = this.#deps;
      requireKnownHost(request, place, settings.hosts);
      const path = (request.url ?? '').split('?', 1)[0] ?? '';
      if (request.method === 'POST') return await this.#post(path, request, response);
      if (request.method === 'GET' || request.method === 'HEAD') return await this.#get(path, request, response);
      throw new Refusal(405, 'This page accepts GET and POST.');
    } catch (error) {
      return this.#refusal(error);
    }
  }

  async #get(path: string, request: IncomingMessage, response: ServerResponse): Promise<Reply | undefined> {
    const { asked, assets, door, news } = this.#deps;
    asked(request);
    const asset = assets.get(path);
    if (asset !== undefined) return { status: 200, ...asset };
    if (path !== '/' && path !== '/events') throw new Refusal(404, 'Not found.');
    const session = door.sessionOf(request);
    const mayLook = door.mayView(session);
    if (path === '/events') {
      if (!mayLook) throw new Refusal(403, 'Log in first.');
      if (request.method === 'HEAD') throw new Refusal(405, 'Use GET.');
      news.follow(response, addressOf(request.socket), () => door.mayView(session));
      return undefined;
    }
    if (!mayLook) return page(frame('Thing Agent', loginPage(false)));
    const snapshot = await news.snapshot();
    return page(document(snapshot, this.#forms(session, snapshot.status)));
  }

  async #post(path: string, request: IncomingMessage, response: ServerResponse): Promise<Reply> {
    const { asked, door, limits } = this.#deps;
    requireSameOrigin(request);
    const session = door.sessionOf(request);
    if (path === '/file') {
      const operator = door.requireOperator(session, tokenOf(request));
      asked(request);
      return this.#takeFile(request, operator);
    }
    const form = await readForm(request, limits);
    asked(request);
    switch (path) {
      case '/login':
        return this.#login(request, response, form.get('password') ?? '');
      case '/logout':
        door.requireToken(session, form.get('token') ?? undefined);
        return toPage({ 'set-cookie': door.logout(request) });
      case '/do':
        await this.#act(door.requireOperator(session, form.get('token') ?? undefined), form);
        return toPage();
      case '/support-bundle':
        door.requireOperator(session, form.get('token') ?? undefined);
        return this.#supportBundle(request);
      default:
        throw new Refusal(404, 'Not found.');
    }
  }

  async #act(operator: Session, form: URLSearchParams): Promise<void> {
    const { orders, news } = this.#deps;
    if (form.get('operation') === 'doctor') {
      const result = await orders.diagnose();
      if ('findings' in result) operator.diagnostics = result;
      else operator.said = result;
      return;
    }
    const { name, input } = orderOf(form);
    if (name === 'rollback' && form.get('versions') !== rollbackVersions(await news.currentStatus()))
      throw new Refusal(409, 'The versions have changed since this page was loaded. Check them, then roll back again.');
    operator.said = await orders.submit(name, input);
    news.noteChange();
  }

  async #supportBundle(request: IncomingMessage): Promise<Reply> {
    const gone = new AbortController();
    request.once('close', () => gone.abort());
    const { name, content } = await this.#deps.supportBundle(gone.signal);
    return {
      status: 200,
      type: 'application/gzip',
      body: content,
      more: { 'content-disposition': `attachment; filename="${name}"` },
    };
  }

  /** Answers when the file was received and its installation has begun. */
  async #takeFile(request: IncomingMessage, operator: Session): Promise<Reply> {
    const { orders, files } = this.#deps;
    const name = new URL(request.url ?? '', 'http://page').searchParams.get('name') ?? '';
    const begun = Promise.withResolvers<void>();
    const work = async (path: string): Promise<void> => {
      await using file = await openNamedFile(path);
      const end = orders.perform('install', { path, file });
      operator.said = await orders.resultOrStarted('install', end);
      begun.resolve();
      await end;
    };
    files.take(request, name, work).catch(begun.reject);
    await begun.promise;
    return page(frame('Thing Agent', html`<p>The file was received.</p>`));
  }

  async #login(request: IncomingMessage, response: ServerResponse, password: string): Promise<Reply> {
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    const cookie = await this.#deps.door.login(request, password, gone.signal);
    return cookie === undefined ? page(frame('Thing Agent', loginPage(true)), 403) : toPage({ 'set-cookie': cookie });
  }

  #forms(session: Session | undefined, status: StatusReport): ViewerForms {
    const { passwordFile, allowOperations } = this.#deps.settings;
    if (session === undefined) return {};
    const { said, token, diagnostics: found } = session;
    session.said = undefined;
    return {
      said: said && resultNotice(said),
      ...(allowOperations && {
        step: stepForms(status, token),
        others: html`${actionForms(status, token)}${found && diagnostics(found)}`,
      }),
      leave: passwordFile === undefined ? undefined : logoutForm(token),
    };
  }

  #refusal(error: unknown): Reply {
    const isOurs = error instanceof Refusal;
    if (error instanceof AgentError) return this.#refusal(new Refusal(503, `${error.message} (${error.code}).`));
    if (!isOurs) this.#deps.log.error({ error: describeError(error) }, 'the web UI failed unexpectedly');
    const text = isOurs ? error.message : 'The agent failed unexpectedly; see its log.';
    // under a name that is not ours, the browser could load nothing else of the page
    if (isOurs && error.status === NOT_OUR_NAME) return { status: NOT_OUR_NAME, type: 'text/plain', body: text };
    const main = html`<main class="refused">
      <h1>${text}</h1>
      <p><a href="./">To the page</a></p>
    </main>`;
    return page(frame('Thing Agent', main), isOurs ? error.status : 500);
  }
}

function page({ text }: Html, status = 200): Reply {
  return { status, type: 'text/html; charset=utf-8', body: text };
}

function tokenOf({ headers }: IncomingMessage): string | undefined {
  const token = headers['x-page-token'];
  return typeof token === 'string' ? token : undefined;
}

/** A redirection to the page: if it is loaded again, the order is not sent twice. */
function toPage(more: Readonly<Record<string, string>> = {}): Reply {
  return { status: 303, type: 'text/plain', body: '', more: { location: './', ...more } };
}
