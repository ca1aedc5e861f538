import type { OffsetMinutes } from '../control/presentation/time.ts';
import type { Performer } from '../control/server/perform.ts';
import type { Log } from '../system/log/log.ts';
import type { Clock } from '../system/time/clock.ts';
import type { PageLimits } from './page-limits.ts';
import type { ListenAddress, PageSettings } from './settings.ts';

/** The parts of the daemon that the web UI uses. */
export interface PageDeps extends Performer {
  readonly settings: PageSettings;
  readonly place: ListenAddress;
  readonly limits: PageLimits;
  readonly log: Log;
  readonly clock: Clock;
  readonly localOffset: OffsetMinutes;
  readonly stateDirectory: string;
  /** Called after a wrong password. */
  readonly onLoginRefused: (why: string) => void;
  /** Creates a support bundle. Throws AgentError. */
  readonly supportBundle: (signal: AbortSignal) => Promise<{ readonly name: string; readonly content: Buffer }>;
}
