import { ServiceError } from '../../../../src/service/errors.ts';
import { readJson } from '../../../../src/service/replies.ts';
import type { Reply } from '../probe.ts';
import { fail, warn } from '../verdict.ts';

/** Reads a reply as the agent does. Throws a Finding for an unsuccessful status and for another shape. */
export function readReply<T>({ status, body }: Reply, read: (value: unknown, operation: string) => T): T {
  if (!isSuccess(status)) fail(`the status is ${status}; the interface states 200`);
  try {
    const value = read(readJson(body, 'the call'), 'the call');
    if (status !== 200) warn(`the status is ${status}; the interface states 200. The agent accepts 200 to 299`);
    return value;
  } catch (error) {
    if (error instanceof ServiceError) fail(error.message);
    throw error;
  }
}

/** Checks the reply of a call that returns nothing. */
export function expectConsent({ status }: Reply, hint = ''): void {
  if (!isSuccess(status)) fail(`the status is ${status}; the interface states 204${hint}`);
  if (status !== 204) warn(`the status is ${status}; the interface states 204. The agent accepts 200 to 299`);
}

/** Checks that an ID that does not exist is refused in such a way that a gateway neither repeats nor activates again. */
export function expectUnknown({ status }: Reply, consequence: string): void {
  if (isSuccess(status)) fail(`the status is ${status}: the service accepts an ID that does not exist`);
  if (status === 401 || status === 403)
    warn(`the status is ${status}: the agent takes its key for invalid, ${consequence}`);
  if (status >= 500 || status === 408 || status === 409 || status === 429) {
    fail(`the status is ${status}: the agent repeats the call. Return 404`);
  }
  if (status < 400) fail(`the status is ${status}: the agent follows no redirects. Return 404`);
  if (status !== 404) warn(`the status is ${status}; 404 says what is wrong`);
}

export function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}
