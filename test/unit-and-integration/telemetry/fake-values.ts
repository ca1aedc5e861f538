import { setImmediate } from 'node:timers/promises';

import { AgentError } from '../../../src/system/errors.ts';
import { parseExactly } from '../../../src/system/json-value.ts';
import type { JsonText } from '../../../src/system/json-value.ts';
import type { ValueService } from '../../../src/telemetry/ports.ts';

export interface Posted {
  readonly event: string;
  readonly datapoints: readonly { readonly value: unknown; readonly at: string }[];
  /** The service's error code; undefined if it accepted them. */
  readonly code: string | undefined;
}

export function serviceError(code: string, retryAfterMs?: number): AgentError {
  return new AgentError({ code, message: `the service says ${code}`, remedy: 'retry', exit: 'failed', retryAfterMs });
}

/** A service that answers as the test wants. */
export class FakeValues implements ValueService {
  readonly posted: Posted[] = [];
  readonly properties = new Map<string, unknown>();
  /** Its reply; undefined if it accepts them. */
  answer: (posted: Omit<Posted, 'code'>) => AgentError | undefined = () => undefined;
  answerProperty: (id: string, value: unknown) => AgentError | undefined = () => undefined;

  async postDatapoints(event: string, { text }: JsonText, signal: AbortSignal): Promise<void> {
    await setImmediate();
    const datapoints = parseExactly(text) as Posted['datapoints'];
    signal.throwIfAborted();
    const error = this.answer({ event, datapoints });
    this.posted.push({ event, datapoints, code: error?.code });
    if (error !== undefined) throw error;
  }

  async setProperty(id: string, { text }: JsonText): Promise<void> {
    await setImmediate();
    const value = parseExactly(text);
    const error = this.answerProperty(id, value);
    if (error !== undefined) throw error;
    this.properties.set(id, value);
  }

  async property(id: string): Promise<unknown> {
    return this.properties.get(id);
  }

  async requestTime(): Promise<boolean> {
    return true;
  }

  get accepted(): Posted[] {
    return this.posted.filter(({ code }) => code === undefined);
  }

  valuesOf(event: string): unknown[] {
    return this.accepted
      .filter((one) => one.event === event)
      .flatMap(({ datapoints }) => datapoints.map(({ value }) => value));
  }
}
