// The configuration as the program uses it: every default is applied, and durations are in milliseconds. schema.ts
// describes what a person writes; resolve.ts leads from one to the other. This file has types only, so that every room
// may import it.
import type { BoardSettings } from '../mcu/settings.ts';
import type { SlotsTargetSettings } from '../slots/settings.ts';
import type { LogLevel } from '../system/log/log.ts';
import type { Command } from '../system/settings/values.ts';
import type { DailyWindow } from '../system/time/daily-window.ts';
import type { MeasurementSettings, TelemetrySettings, WatchSettings } from '../telemetry/settings.ts';
import type { PackageTargetSettings } from './package-config.ts';
import type { PageSettings } from './page-config.ts';

export interface Config {
  readonly service: ServiceSettings;
  readonly device: DeviceSettings;
  readonly paths: PathSettings;
  readonly update: UpdateSettings;
  readonly hooks: HooksSettings;
  readonly trust: TrustSettings;
  readonly report: ReportSettings;
  readonly system: SystemSettings;
  readonly control: ControlSettings;
  readonly page: PageSettings;
  readonly log: LogSettings;
  readonly targets: readonly TargetSettings[];
  readonly telemetry: TelemetrySettings;
  /** Sensors and properties. */
  readonly measurements: readonly MeasurementSettings[];
  readonly watches: readonly WatchSettings[];
}

// ---------------------------------------------------------------------------------------------------------- service

export interface ServiceSettings {
  /** Without a trailing slash. */
  readonly url: string;
  readonly transport: 'rest' | 'messaging';
  readonly keyOnProvisioning: boolean;
  /** Whether a property value that is a text is sent as it is, or as a JSON string. */
  readonly propertyText: 'plain' | 'json';
  /** The first rate whose window applies bounds downloads; empty: nothing does. */
  readonly maxRates: readonly MaxRate[];
  readonly tls: TlsSettings;
  readonly deadlines: DeadlineSettings;
  readonly messaging: MessagingSettings | undefined;
}

export interface MaxRate {
  /** Undefined: at any time. */
  readonly window: DailyWindow | undefined;
  readonly bytesPerSecond: number;
}

export interface TlsSettings {
  readonly caFile: string | undefined;
  /** Both or none. */
  readonly clientCertificateFile: string | undefined;
  readonly clientKeyFile: string | undefined;
}

export interface DeadlineSettings {
  readonly connectMs: number;
  readonly firstByteMs: number;
  /** Between two chunks of a reply. */
  readonly idleMs: number;
  /** For a whole call with its reply; a firmware transfer has `transferMs` instead. */
  readonly wholeMs: number;
  readonly transferMs: number;
}

export interface MessagingSettings {
  readonly url: string;
  /** 4 is MQTT 3.1.1. */
  readonly protocolVersion: 5 | 4;
  /** Undefined: made from the serial number. */
  readonly clientId: string | undefined;
  readonly username: string | undefined;
  readonly passwordFile: string | undefined;
  readonly tls: TlsSettings;
  /** `{topic_id}` is replaced in all topics. */
  readonly activateTopic: string;
  readonly requestTopic: string;
  readonly replyTopic: string;
  readonly statusTopic: string | undefined;
  readonly wakeTopic: string | undefined;
  readonly keepAliveMs: number;
  readonly sessionExpiryMs: number;
  readonly requestTimeoutMs: number;
  readonly maxMessageBytes: number;
  readonly firmwareTransport: 'rest' | 'messaging';
}

// ------------------------------------------------------------------------------------------- device, paths, system

export interface DeviceSettings {
  readonly serialNumber: string | undefined;
  readonly serialNumberFile: string | undefined;
  /** The version that the image has before any update. */
  readonly factoryVersion: string | undefined;
  /** Undefined: os-release. */
  readonly factoryVersionFile: string | undefined;
  readonly deviceType: string;
}

export interface PathSettings {
  readonly state: string;
  readonly run: string;
}

export interface SystemSettings {
  readonly rebootCommand: Command;
  /** Changes with every boot. */
  readonly bootIdFile: string;
  readonly helper?: string | undefined; // the socket of the helper; undefined: the agent installs by itself
}

export interface LogSettings {
  readonly level: LogLevel;
  /** `auto`: lines with a priority for the journal, else text. */
  readonly format: 'auto' | 'text' | 'json';
}

// ----------------------------------------------------------------------------------------------------------- update

export interface UpdateSettings {
  readonly follow: 'target' | 'updates' | 'none';
  /** A cron expression. */
  readonly schedule: string;
  readonly splayMs: number;
  readonly choose: Choice;
  /** Undefined: at any time. */
  readonly window: DailyWindow | undefined;
  /** The window for the reboot into a staged firmware; undefined: `window`. */
  readonly rebootWindow: DailyWindow | undefined;
  /** Metered interfaces, for which downloads wait; a `*` at the end stands for anything. */
  readonly metered: readonly string[];
  /**
   * Where the whole image is looked for after a delta did not fit: in another version of the same name, or in the same
   * version.
   */
  readonly wholeImage: 'updates' | 'same';
  /** A name of `targets`; undefined: there is no target, or no way to choose among several. */
  readonly defaultTarget: string | undefined;
  readonly encoding: 'auto' | 'base64' | 'base64url' | 'hex';
  readonly health: HealthSettings;
  /** How often one version may fail before it is held back. */
  readonly attempts: number;
  /** How often a staged slot may be booted for its trial before it counts as broken. */
  readonly trialAttempts: number;
  /** The time after which a failed version may be tried again. */
  readonly quarantineMs: number;
}

/** Which of several versions to switch to. If a pattern matches several, it is the newest of them. */
export type Choice =
  | { readonly kind: 'newest' }
  | { readonly kind: 'last' }
  | { readonly kind: 'first' }
  | { readonly kind: 'pattern'; readonly pattern: RegExp };

/** Programs of the integrator that are asked or told; undefined: none is. */
export interface HooksSettings {
  readonly beforeInstall: HookSettings | undefined;
  readonly beforeReboot: HookSettings | undefined;
  readonly afterCommit: HookSettings | undefined;
  readonly afterRollback: HookSettings | undefined;
}

export interface HookSettings {
  readonly command: Command;
  /** The user whose rights it has; undefined: the agent's. */
  readonly user: string | undefined;
  readonly timeoutMs: number;
}

export interface HealthSettings {
  readonly deadlineMs: number;
  /** Healthy if each of them exits with 0. */
  readonly commands: readonly Command[];
  /** The user whose rights they have; undefined: the agent's. */
  readonly user?: string | undefined;
  /** Healthy if each of them is active. */
  readonly units: readonly string[];
  /** Healthy if the service answers. */
  readonly service: boolean;
}

export interface TrustSettings {
  readonly keys: readonly KeyFileSettings[];
  readonly allowUnsigned: boolean;
  /** `match`: a signed release must have the name by which the service offers it. */
  readonly names: 'match' | 'free';
  /** `refuse`: the semantic versions of signed names may only rise. */
  readonly downgrade: 'allow' | 'refuse';
}

export interface ControlSettings {
  /** Properties that members of the group may read and write. */
  readonly properties: readonly string[];
}

/** A file with a public key. */
export interface KeyFileSettings {
  readonly file: string;
  readonly name?: string | undefined;
  readonly notBeforeMs?: number | undefined;
  readonly notAfterMs?: number | undefined;
}

/**
 * Properties that receive the end of each attempt, the last security events, and the ids of versions that are wanted
 * whole; undefined: none.
 */
export interface ReportSettings {
  readonly outcome: string | undefined;
  readonly security: string | undefined;
  readonly wholeImage: string | undefined;
}

// ---------------------------------------------------------------------------------------------------------- targets

export type TargetSettings = SlotsTargetSettings | BoardSettings | PackageTargetSettings;
