import { mcuTargetSchema } from '../mcu/settings.ts';
import { slotsTargetSchema } from '../slots/settings.ts';
import { settingsOf } from '../system/settings/settings.ts';
import { durationMs, parseDailyWindow, sizeBytes } from '../system/settings/values.ts';
import { parseUtcTime } from '../system/time/utc-time.ts';
import { propertySettings, sensorSettings, telemetrySettings, watchSettings } from '../telemetry/settings.ts';
import type {
  Choice,
  Config,
  HookSettings,
  KeyFileSettings,
  MessagingSettings,
  ServiceSettings,
  TargetSettings,
  TlsSettings,
  UpdateSettings,
} from './config.ts';
import { resolvePage } from './resolve-page.ts';
import type { ConfigFile } from './schema/schema.ts';
import { parsePattern } from './schema/update-schema.ts';

/** Translates the words of the file into those of the program. The file has passed the schema and cross-check.ts. */
export function resolveConfig(file: ConfigFile): Config {
  return {
    service: resolveService(file.service),
    device: {
      serialNumber: file.device.serial_number,
      serialNumberFile: file.device.serial_number_file,
      factoryVersion: file.device.factory_version,
      factoryVersionFile: file.device.factory_version_file,
      deviceType: file.device.device_type,
    },
    paths: file.paths,
    update: resolveUpdate(file),
    hooks: {
      beforeInstall: resolveHook(file.hooks.before_install),
      beforeReboot: resolveHook(file.hooks.before_reboot),
      afterCommit: resolveHook(file.hooks.after_commit),
      afterRollback: resolveHook(file.hooks.after_rollback),
    },
    trust: {
      keys: file.trust.keys.map(resolveKey),
      allowUnsigned: file.trust.allow_unsigned,
      names: file.trust.names,
      downgrade: file.trust.downgrade,
    },
    report: { outcome: file.report.outcome, security: file.report.security, wholeImage: file.report.whole_image },
    system: {
      rebootCommand: file.system.reboot_command,
      bootIdFile: file.system.boot_id_file,
      helper: file.system.helper,
    },
    control: file.control,
    page: resolvePage(file.page),
    log: file.log,
    targets: Object.entries(file.targets).map(([name, target]) => resolveTarget(name, target)),
    telemetry: telemetrySettings(file.telemetry),
    measurements: [...file.sensors.map(sensorSettings), ...file.properties.map(propertySettings)],
    watches: watchSettings(file.watch),
  };
}

function resolveHook(hook: ConfigFile['hooks']['before_install']): HookSettings | undefined {
  return hook && { command: hook.command, user: hook.user, timeoutMs: durationMs(hook.timeout) };
}

function resolveKey(key: ConfigFile['trust']['keys'][number]): KeyFileSettings {
  if (typeof key === 'string') return { file: key };
  const { file, name, not_before: notBefore, not_after: notAfter } = key;
  return { file, name, notBeforeMs: parseUtcTime(notBefore), notAfterMs: parseUtcTime(notAfter) };
}

function resolveService(service: ConfigFile['service']): ServiceSettings {
  const { deadlines, messaging } = service;
  return {
    url: service.url.replace(/(?<!\/)\/+$/, ''),
    transport: service.transport,
    keyOnProvisioning: service.key_on_provisioning,
    propertyText: service.property_text,
    maxRates: resolveRates(service.max_rate),
    tls: resolveTls(service),
    deadlines: {
      connectMs: durationMs(deadlines.connect),
      firstByteMs: durationMs(deadlines.first_byte),
      idleMs: durationMs(deadlines.idle),
      wholeMs: durationMs(deadlines.whole),
      transferMs: durationMs(deadlines.transfer),
    },
    messaging: messaging === undefined ? undefined : resolveMessaging(messaging, service.transport),
  };
}

function resolveRates(rates: ConfigFile['service']['max_rate'] = []): ServiceSettings['maxRates'] {
  const rows = typeof rates === 'string' ? [{ rate: rates }] : rates;
  return rows.map(({ window, rate }) => ({ window: resolveWindow(window), bytesPerSecond: sizeBytes(rate) }));
}

function resolveMessaging(
  messaging: NonNullable<ConfigFile['service']['messaging']>,
  transport: ServiceSettings['transport'],
): MessagingSettings {
  const topic = (text: string): string => text.replaceAll('{topic_id}', () => messaging.topic_id ?? '');
  const { status_topic: status, wake_topic: wake } = messaging;
  return {
    url: messaging.url,
    protocolVersion: messaging.protocol_version,
    clientId: messaging.client_id,
    username: messaging.username,
    passwordFile: messaging.password_file,
    tls: resolveTls(messaging),
    activateTopic: topic(messaging.activate_topic),
    requestTopic: topic(messaging.request_topic),
    replyTopic: topic(messaging.reply_topic),
    statusTopic: status === undefined ? undefined : topic(status),
    wakeTopic: wake === undefined ? undefined : topic(wake),
    keepAliveMs: durationMs(messaging.keep_alive),
    sessionExpiryMs: durationMs(messaging.session_expiry),
    requestTimeoutMs: durationMs(messaging.request_timeout),
    maxMessageBytes: sizeBytes(messaging.max_message),
    firmwareTransport: messaging.firmware_transport ?? transport,
  };
}

interface TlsFiles {
  readonly ca_file?: string | undefined;
  readonly client_certificate_file?: string | undefined;
  readonly client_key_file?: string | undefined;
}

function resolveTls(files: TlsFiles): TlsSettings {
  return {
    caFile: files.ca_file,
    clientCertificateFile: files.client_certificate_file,
    clientKeyFile: files.client_key_file,
  };
}

function resolveUpdate({ update, targets }: ConfigFile): UpdateSettings {
  return {
    follow: update.follow,
    schedule: update.schedule,
    splayMs: durationMs(update.splay),
    choose: resolveChoice(update.choose),
    window: resolveWindow(update.window),
    rebootWindow: resolveWindow(update.reboot_window),
    metered: update.metered,
    wholeImage: update.whole_image,
    defaultTarget: update.default_target ?? mainTarget(targets),
    encoding: update.encoding,
    health: {
      deadlineMs: durationMs(update.health.deadline),
      commands: update.health.commands,
      user: update.health.user,
      units: update.health.units,
      service: update.health.service,
    },
    attempts: update.attempts,
    trialAttempts: update.trial_attempts,
    quarantineMs: durationMs(update.quarantine),
  };
}

function resolveWindow(window: string | undefined): UpdateSettings['window'] {
  return window === undefined ? undefined : parseDailyWindow(window);
}

function resolveChoice(choose: string): Choice {
  if (choose === 'last' || choose === 'first') return { kind: choose };
  const pattern = parsePattern(choose);
  return pattern === undefined ? { kind: 'newest' } : { kind: 'pattern', pattern };
}

/** The pair of slots that boots; without one, the only target. */
function mainTarget(targets: ConfigFile['targets']): string | undefined {
  const names = Object.keys(targets);
  const boots = ([, target]: [string, ConfigFile['targets'][string]]): boolean =>
    target.kind === 'slots' && target.bootloader !== undefined;
  return Object.entries(targets).find(boots)?.[0] ?? (names.length === 1 ? names[0] : undefined);
}

function resolveTarget(name: string, target: ConfigFile['targets'][string]): TargetSettings {
  switch (target.kind) {
    case 'slots':
      return { name, ...settingsOf(slotsTargetSchema, target) };
    case 'mcu':
      return { name, ...settingsOf(mcuTargetSchema, target) };
    case 'package': {
      const { kind, package: known, install_deadline: installDeadline, patience } = target;
      const [installMs, patienceMs] = [durationMs(installDeadline), durationMs(patience)];
      return { kind, name, package: known, installMs, patienceMs };
    }
  }
}
