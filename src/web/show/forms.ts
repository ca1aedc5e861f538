import type { IncomingMessage } from 'node:http';

import { readBody } from '../../control/server/read-body.ts';
import { abortable } from '../../system/abortable.ts';
import { describeError } from '../../system/errors.ts';
import { Deadline } from '../../system/time/deadline.ts';
import { Refusal } from '../page-errors.ts';
import type { PageLimits } from '../page-limits.ts';
import { html } from './html.ts';
import type { Html } from './html.ts';

/** Reads the fields of a form. Throws Refusal. */
export async function readForm(
  request: IncomingMessage,
  { maxFormBytes, formMs }: Pick<PageLimits, 'maxFormBytes' | 'formMs'>,
): Promise<URLSearchParams> {
  if (request.headers['content-type']?.startsWith('application/x-www-form-urlencoded') !== true) {
    throw new Refusal(415, 'This is not a form.');
  }
  const late = (): Refusal => new Refusal(408, 'The form was not received in time.');
  using deadline = new Deadline(formMs, late, new AbortController().signal);
  try {
    const text = await abortable(readBody(request, maxFormBytes), deadline.signal);
    if (text === undefined) throw new Refusal(413, 'This form is too long.');
    return new URLSearchParams(text);
  } catch (error) {
    if (error instanceof Refusal) throw error;
    throw new Refusal(400, `The form is incomplete: ${describeError(error)}`);
  }
}

/** Returns the login page, which shows nothing about the gateway. */
export function loginPage(isWrong: boolean): Html {
  return html`<main class="login">
    <h1>Thing Agent</h1>
    <form method="post" action="login">
      ${isWrong && html`<p role="alert">That is not the password.</p>`}
      <label for="password">Password</label>
      <input id="password" name="password" type="password" autocomplete="current-password" required autofocus />
      <button>Log in</button>
    </form>
  </main>`;
}

export function logoutForm(token: string): Html {
  return html`<form method="post" action="logout">
    <input type="hidden" name="token" value="${token}" />
    <button class="quiet">Log out</button>
  </form>`;
}
