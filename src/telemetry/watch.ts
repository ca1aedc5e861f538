import { dirname } from 'node:path';

import { AgentError, describeError } from '../system/errors.ts';
import { replaceFileDurably } from '../system/files/durable-file.ts';
import { refuseExposed } from '../system/files/protected-file.ts';
import { requireReplaceable } from '../system/files/published-file.ts';
import type { Log } from '../system/log/log.ts';
import { runProgram } from '../system/processes/child-process.ts';
import type { Clock } from '../system/time/clock.ts';
import type { ValueService } from './ports.ts';
import type { WatchSettings } from './settings.ts';
import { sourceFailed } from './sources/source.ts';

export interface WatchDeps {
  readonly watch: WatchSettings;
  readonly service: Pick<ValueService, 'property'>;
  readonly clock: Clock;
  readonly log: Log;
}

/** The bound for the output of a program. */
const MAX_OUTPUT_BYTES = 64 * 1024;

/**
 * Watches a property that is set at the service. Its value is passed on when it changes, and once after a start.
 */
export class Watch {
  readonly #deps: WatchDeps;
  #handed: string | undefined;
  #lastError: string | undefined;

  constructor(deps: WatchDeps) {
    this.#deps = deps;
  }

  get figures(): { readonly id: string; readonly lastError: string | undefined } {
    return { id: this.#deps.watch.id, lastError: this.#lastError };
  }

  /** Watches until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, watch } = this.#deps;
    while (!signal.aborted) {
      await this.poll(signal);
      await clock.sleep(watch.everyMs, signal);
    }
  }

  /** Checks once. A value that cannot be passed on is tried again with the next check. */
  async poll(signal: AbortSignal): Promise<void> {
    const { service, watch, log } = this.#deps;
    try {
      const text = JSON.stringify((await service.property(watch.id, signal)) ?? null);
      if (text !== this.#handed) {
        await writeOutput(watch.output, text, signal);
        this.#handed = text;
        log.info({ property: watch.id }, 'the property has a new value; it was handed on');
      }
      this.#lastError = undefined;
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof AgentError)) throw error;
      if (this.#lastError === undefined) log.warn({ property: watch.id, code: error.code }, describeError(error));
      this.#lastError = describeError(error);
    }
  }
}

/** Passes on the value as JSON: to a program's standard input, into a file, or to a topic, where it is retained. */
async function writeOutput(output: WatchSettings['output'], text: string, signal: AbortSignal): Promise<void> {
  switch (output.kind) {
    case 'command': {
      const options = {
        timeoutMs: output.timeoutMs,
        maxOutputBytes: MAX_OUTPUT_BYTES,
        user: output.user,
        input: `${text}\n`,
      };
      const { exitCode, stderr } = await runProgram(output.command, options, signal);
      if (exitCode === 0) return;
      throw sourceFailed(output.command[0], `ended with ${exitCode ?? 'a signal'}: ${describeError(stderr.trim())}`);
    }
    case 'file':
      await refuseExposed(dirname(output.path)); // a link that another user sets there would lead anywhere
      await requireReplaceable(output.path);
      return replaceFileDurably(output.path, `${text}\n`);
    case 'mqtt': {
      const { publish } = await import('./sources/mqtt.ts'); // a package that few gateways need
      return publish(output, text, signal);
    }
  }
}
