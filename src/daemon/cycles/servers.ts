import { isDeepStrictEqual } from 'node:util';

import type { LoadedConfig } from '../../config/load-config.ts';
import { reportError } from '../../control/control-errors.ts';
import { systemOffset } from '../../control/presentation/time.ts';
import type { SecurityEventId } from '../../control/security/security-event-meanings.ts';
import { startControlServer } from '../../control/server/control-server.ts';
import type { Performer } from '../../control/server/perform.ts';
import { describeError, undefinedIf } from '../../system/errors.ts';
import type { PageServerDeps } from '../../web/page-server.ts';
import type { PageSettings } from '../../web/settings.ts';
import type { Runtime } from '../wiring/wiring.ts';

export interface ServerDeps extends Performer {
  readonly world: Runtime;
  /** Called each time, since a reload replaces the configuration. */
  readonly loaded: () => LoadedConfig;
  readonly record: (id: SecurityEventId, detail: string) => void;
}

/** Starts the control sockets in the run directory, and the page, which it returns. */
export async function startServers(
  { world, loaded, record, ...performer }: ServerDeps,
  opened: AsyncDisposableStack,
  signal: AbortSignal,
): Promise<PageHost> {
  const { paths, page } = loaded().config;
  const memberProperties = (): readonly string[] => loaded().config.control.properties;
  const onDenied = (who: string, what: string): void => record('access-denied', `${who} asked for ${what}`);
  const sockets = { runDirectory: paths.run, memberProperties, onDenied, ...performer, log: world.log };
  opened.use(await startControlServer(sockets, signal));
  const onLoginRefused = (why: string): void => record('login-rejected', why);
  const host = opened.use(
    new PageHost({
      ...performer,
      ...world,
      stateDirectory: paths.state,
      localOffset: systemOffset,
      onLoginRefused,
      supportBundle: async (ending) => {
        const { ownSupportBundle } = await import('../support/support.ts');
        return ownSupportBundle(loaded().path, ending);
      },
    }),
  );
  await host.serve(page);
  return host;
}

/** The page is tried again this often: its address may come up after the agent, and its port may become free. */
const RETRY_MS = 15_000;

/** Serves the web UI at the configured address. If it cannot be served, the daemon continues without it. */
export class PageHost implements AsyncDisposable {
  readonly #deps: Omit<PageServerDeps, 'settings'>;
  #settings: PageSettings | undefined;
  #served: AsyncDisposable | undefined;
  #ending = new AbortController();
  #starting: Promise<void> = Promise.resolve();
  #trouble: string | undefined;

  constructor(deps: Omit<PageServerDeps, 'settings'>) {
    this.#deps = deps;
  }

  /** The troubles for the status. */
  get troubles(): readonly string[] {
    return this.#trouble === undefined ? [] : [this.#trouble];
  }

  /**
   * Serves the page with these settings. Also called after a reload, since the files that they name may have changed.
   */
  async serve(settings: PageSettings): Promise<void> {
    const isSame = isDeepStrictEqual(settings, this.#settings);
    const hasFiles = settings.certificateFile !== undefined || settings.passwordFile !== undefined;
    if (isSame && !hasFiles) return;
    await this[Symbol.asyncDispose]();
    this.#settings = settings;
    if (await this.#try(settings)) return;
    this.#ending = new AbortController();
    this.#starting = undefinedIf((error) => error === ended, this.#tryAgain(settings, this.#ending.signal));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort(ended);
    await this.#starting;
    await this.#served?.[Symbol.asyncDispose]();
    this.#served = undefined;
    this.#trouble = undefined;
  }

  async #tryAgain(settings: PageSettings, signal: AbortSignal): Promise<void> {
    const { clock } = this.#deps;
    do await clock.sleep(RETRY_MS, signal);
    while (!(await this.#try(settings)));
  }

  async #try(settings: PageSettings): Promise<boolean> {
    const { log } = this.#deps;
    const { place } = settings;
    if (place === undefined) return true;
    try {
      const { startPage } = await import('../../web/page-server.ts');
      this.#served = await startPage({ ...this.#deps, settings }, place);
      this.#trouble = undefined;
      const where = place.kind === 'socket' ? place.path : `${place.host} ${place.port}`;
      log.info({ where }, 'web UI available');
      return true;
    } catch (error) {
      const trouble = `the web UI is not available: ${describeError(error)}`;
      const { code, advice } = reportError(error);
      if (trouble !== this.#trouble) log.error({ code, advice }, trouble);
      this.#trouble = trouble;
      return false;
    }
  }
}

const ended = new Error('the web UI is closing');
