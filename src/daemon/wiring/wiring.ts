import type { Config } from '../../config/config.ts';
import type { OpenPort } from '../../serial/line.ts';
import { FileIdentityStore } from '../../service/identity.ts';
import { ServiceSession } from '../../service/session.ts';
import { Traffic } from '../../service/traffic.ts';
import type { BootloaderDeps } from '../../slots/bootloaders/create-bootloader.ts';
import { findSerialNumber } from '../../system/device/serial-number.ts';
import type { Log } from '../../system/log/log.ts';
import type { Environment } from '../../system/processes/environment.ts';
import type { Clock } from '../../system/time/clock.ts';
import type { Journal } from '../../update/journal/journal.ts';
import { prepareStateDirectory, stateFs } from '../doctor/state-directory.ts';
import { DaemonError } from '../errors.ts';
import { History } from '../history/history.ts';
import { SecurityLog } from '../security/security-log.ts';
import { claimState } from './claim-state.ts';
import { wireEngine } from './engine.ts';
import { hasBootloader } from './settings.ts';
import { wireTrust } from './trust.ts';
import { wireService } from './wire-service.ts';

export interface Runtime {
  readonly environment: Environment;
  readonly clock: Clock;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
  readonly log: Log;
  readonly agentVersion: string;
  /** The places where the system describes this boot. Default: its own. */
  readonly boot?: Pick<BootloaderDeps, 'commandLine' | 'deviceTreePartition'> & {
    /** The file of systemd-timesyncd. */
    readonly timesync?: string;
  };
  /** Opens the port of a board. Default: directly. */
  readonly openPort?: OpenPort;
  /**
   * Returns the reason why the next start of the agent would reject its configuration, if any. Absent if it was just
   * read.
   */
  readonly configProblem?: () => Promise<string | undefined>;
  /** Called with the time that the service's clock shows. */
  readonly onServiceTime?: (atMs: number) => void;
  /** Called when the gateway was activated, for the first time or again. */
  readonly onActivated?: () => void;
  /** Called when an event was added to the security log. */
  readonly onSecurityEvent?: () => void;
}

/** Everything that one configuration brings to life; it is disposed as a whole. */
export type Wiring = Awaited<ReturnType<typeof wire>>;

/** The parts that a reload keeps. */
interface ReusedParts {
  readonly journal: Journal;
  readonly security?: SecurityLog;
  readonly history?: History;
  /** Counts the bytes on the connections to the service since this process started. */
  readonly traffic?: Traffic;
  readonly config?: Config;
  readonly session?: ServiceSession;
}

/**
 * Connects modules and ports, without asking the service or the bootloader anything yet. `before` is the wiring that
 * this one replaces. Its journal, history, security log and traffic stay the same objects, so that an operation that
 * still runs with it and one that begins here see one state.
 */
export async function wire(config: Config, world: Runtime, before: ReusedParts | undefined, signal: AbortSignal) {
  const { clock, random, log } = world;
  await prepareStateDirectory(config, log);
  const place = { stateDirectory: config.paths.state, fs: stateFs(config) };
  const security = before?.security ?? new SecurityLog({ ...world, ...place, onEvent: world.onSecurityEvent });
  const history = before?.history ?? new History({ ...world, ...place, hasSlots: config.targets.some(hasBootloader) });
  const serialNumber = await findSerialNumber(config.device, signal);
  await using opened = new AsyncDisposableStack();
  const trust = wireTrust(config, world);
  const traffic = before?.traffic ?? new Traffic(clock);
  const onServiceTime = (atMs: number): void => {
    trust.onServiceTime(atMs);
    world.onServiceTime?.(atMs);
  };
  const heard = { ...world, traffic, onServiceTime };
  const service = opened.use(await wireService(config, heard, serialNumber));
  const identities = new FileIdentityStore(config.paths.state, serialNumber, log, place.fs);
  const owned = { stateDirectory: config.paths.state, identities, log };
  const claimed = before === undefined ? await claimState(owned) : undefined;
  const session = new ServiceSession({
    transport: service.transport,
    identities,
    serialNumber,
    clock,
    random,
    log,
    onActivated: (thingId, isAgain) => {
      void security.record(isAgain ? 'reactivated' : 'activated', `as Thing ID ${thingId}`);
      world.onActivated?.();
    },
    onShared: () => void security.record('serial-number-shared', serialNumber),
    lastContactAt: contactBefore(config, before),
  });
  const journal = before?.journal;
  const engine = await wireEngine({ config, world, trust, security, history, journal, service: session });
  await claimed?.(engine.journal);
  const resources = opened.move();
  const dispose = async (): Promise<void> => resources.disposeAsync();
  const parts = { ...service, identities, session, traffic, trust, security, history, ...engine };
  return { config, world, serialNumber, ...parts, [Symbol.asyncDispose]: dispose };
}

/** Data that belongs to an identity is set aside at a start, before it is opened. */
export function refuseOtherSerialNumber(old: Wiring | undefined, { serialNumber }: Wiring): void {
  if (old === undefined || old.serialNumber === serialNumber) return;
  const message = `the serial number was ${old.serialNumber}, and would be ${serialNumber}`;
  throw new DaemonError('serial-number-changed', message);
}

/** Returns the time of the last contact with the same service before a reload. */
function contactBefore({ service }: Config, before: ReusedParts | undefined): string | undefined {
  return before?.config?.service.url === service.url ? before.session?.contact.lastContactAt : undefined;
}
