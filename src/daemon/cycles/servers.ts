import type { LoadedConfig } from '../../config/load-config.ts';
import { systemOffset } from '../../control/presentation/time.ts';
import type { SecurityEventId } from '../../control/security/security-event-meanings.ts';
import { startControlServer } from '../../control/server/control-server.ts';
import type { Performer } from '../../control/server/perform.ts';
import { PageHost } from '../wiring/page-host.ts';
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
        const { ownSupportBundle } = await import('../support/own-bundle.ts');
        return ownSupportBundle(loaded().path, ending);
      },
    }),
  );
  await host.serve(page);
  return host;
}
