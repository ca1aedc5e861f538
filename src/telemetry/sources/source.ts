import type * as z from 'zod';

import type { DropReason } from '../../control/telemetry-protocol.ts';
import { maskAddresses } from '../../system/log/secrets.ts';
import { ownSettingsOf, tableOfKind } from '../../system/settings/described.ts';
import type { OfKind, OwnSettings } from '../../system/settings/described.ts';
import type { Clock } from '../../system/time/clock.ts';
import { TelemetryError } from '../errors.ts';
import type { OpenSerialLine } from '../ports.ts';
import type { ModbusDevices } from './modbus/modbus.ts';

/** The result of reading a source: a number, a text, or an object from which outputs take parts. */
export type Reading = unknown;

/** A source that is read at intervals. Throws AgentError. */
export interface PolledSource {
  readonly kind: 'polled';
  read(signal: AbortSignal): Promise<Reading>;
  /** A note for operators although the source works. */
  readonly notice?: string | undefined;
}

/** Receives the readings of a push source. */
export interface ReadingSink {
  /** The source is connected, and may be silent from now on. */
  connected(): void;
  /**
   * Takes one more reading. `read` makes it; it is not called if readings come too fast. An unusable reading is dropped; an
   * undefined one means that the source was to pick readings, and that `text` holds none, or that a message is empty. `series`: readings of
   * another one are reduced separately. Throws any other error of `read`.
   */
  take(read: () => Reading, text?: string, series?: string): void;
  /** Notes arrivals without a reading. `why` may end with a sample. */
  drop: (reason: DropReason, why: string, count?: number) => void;
  /**
   * This number of bytes arrived. If it returns a promise, the source must wait for it before it reads more; it never rejects.
   */
  rest(bytes: number): Promise<void> | undefined;
}

/**
 * A push source. Throws AgentError when it cannot continue, or returns when it has ended; it is started
 * again later. It reads no further than `rest` allows, so that a sender that is too fast has to wait. Exceptions leave
 * it only through this promise.
 */
export interface PushedSource {
  readonly kind: 'pushed';
  run(intake: ReadingSink, signal: AbortSignal): Promise<void>;
}

export type Source = PolledSource | PushedSource;

export function sourceFailed(what: string, why: string, cause?: unknown): TelemetryError {
  return new TelemetryError('source-failed', `${maskAddresses(what)}: ${why}`, cause);
}

export interface SharedSourceDeps {
  readonly openLine: OpenSerialLine;
  readonly diskPath: string;
  readonly agentFigures: () => Reading;
  readonly clock: Clock;
}

export interface SourceDeps extends SharedSourceDeps {
  readonly timeoutMs: number;
  readonly modbus: () => Promise<ModbusDevices>;
}

/** A source as it describes itself to the configuration. It is listed in sources.ts. */
interface Description<Name extends string, Shape extends z.ZodRawShape> {
  readonly name: Name;
  readonly settings: Shape;
  /** Loads the source, which reading a configuration does not. */
  readonly create: (settings: OwnSettings<Name, Shape>, deps: SourceDeps) => Promise<Source>;
  /** Returns the location that is read, without secrets: a device, a file, a program, an address. */
  readonly place: (settings: OwnSettings<Name, Shape>) => string;
  /** Returns the advice after a failed try. Omitted for the usual one. */
  readonly advice?: (settings: OwnSettings<Name, Shape>) => string;
  /** True if the source waits for its turn, and then keeps its timeout itself. */
  readonly takesTurns?: boolean;
  /** True for a push source. Omitted if it is read at intervals. */
  readonly speaks?: (settings: OwnSettings<Name, Shape>) => boolean;
}

export function sourceKind<Name extends string, Shape extends z.ZodRawShape>(described: Description<Name, Shape>) {
  const { name, create, place, advice, speaks, takesTurns = false } = described;
  const own = ownSettingsOf<Name, Shape>(name);
  return {
    name,
    table: tableOfKind(name, described.settings),
    create: async (settings: OfKind, deps: SourceDeps) => create(own(settings), deps),
    place: (settings: OfKind) => place(own(settings)),
    advice: (settings: OfKind) => advice?.(own(settings)),
    speaks: (settings: OfKind) => speaks?.(own(settings)) ?? false,
    takesTurns,
  };
}
