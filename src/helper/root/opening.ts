import { join } from 'node:path';

import type { Config } from '../../config/config.ts';
import type { EngineWorld } from '../../daemon/wiring/wiring.ts';
import { AgentError } from '../../system/errors.ts';
import { acquireLock } from '../../system/files/lock.ts';
import type { AgentLock } from '../../system/files/lock.ts';
import { HelperError } from '../errors.ts';
import { TrayReader, trayBeside } from '../link/tray.ts';
import { runDirectoryOf } from './engine.ts';

export interface OpeningDeps {
  /** Reads the configuration anew, as root. Throws ConfigError. */
  readonly loadConfig: () => Promise<Config>;
  readonly world: EngineWorld;
}

/** What the helper needs to serve a connection. */
export interface Opened {
  readonly config: Config;
  /** Of the helper's socket. */
  readonly path: string;
  readonly tray: TrayReader;
}

/** What the helper holds from the first connection that it can serve until it ends. */
interface Held {
  readonly lock: AgentLock;
  readonly tray: TrayReader;
}

/** Opens for each connection what the helper needs, so that what was wrong with one may be mended before the next. */
export class Opening implements AsyncDisposable {
  readonly #deps: OpeningDeps;
  readonly #signal: AbortSignal;
  #held: Held | undefined;
  #told: string | undefined;

  constructor(deps: OpeningDeps, signal: AbortSignal) {
    this.#deps = deps;
    this.#signal = signal;
  }

  /** As `open`, for the agent, which is answered with what this throws; the log has it once. */
  async openForAgent(): Promise<Opened> {
    try {
      return await this.open();
    } catch (error) {
      if (error instanceof AgentError) this.#tell(error);
      throw error;
    }
  }

  /** Throws ConfigError, `helper-refused`, or what keeps the helper from its lock. */
  async open(): Promise<Opened> {
    const config = await this.#deps.loadConfig();
    const path = config.system.helper;
    if (path === undefined) {
      throw new HelperError('helper-refused', 'the configuration names no helper', {
        advice: 'set [system] helper = "/run/thing-helper/helper.sock"',
      });
    }
    const { tray } = (this.#held ??= await this.#hold(config, path));
    return { config, path, tray };
  }

  async #hold(config: Config, path: string): Promise<Held> {
    const lock = await acquireLock(join(runDirectoryOf(config), 'helper.lock'), 'helper', this.#signal);
    return { lock, tray: new TrayReader(trayBeside(path)) };
  }

  #tell({ code, message, advice }: AgentError): void {
    if (message === this.#told) return;
    this.#told = message;
    this.#deps.world.log.error({ code, advice }, `the helper can do nothing: ${message}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#held?.lock[Symbol.asyncDispose]();
  }
}
