import { describe, expect, test } from 'vitest';

import type { Config } from '../../../src/config/config.ts';
import { resolveConfig } from '../../../src/config/config.ts';
import { parseConfig } from '../../../src/config/read-config.ts';
import { leastConfig, wholeConfig } from './config-texts.ts';

describe('resolveConfig', () => {
  test('reads every key of the core', () => {
    expect(resolve(wholeConfig)).toEqual(wholeResolved);
  });

  test('fills in what is left out', () => {
    const config = resolve(leastConfig);
    expect(config.service).toMatchObject({
      transport: 'rest',
      keyOnProvisioning: true,
      propertyText: 'plain',
      maxRates: [],
      deadlines: { connectMs: 10_000, firstByteMs: 60_000, idleMs: 60_000, totalMs: 120_000, transferMs: 86_400_000 },
      messaging: undefined,
    });
    expect(config.paths).toEqual({ state: '/var/lib/thing-agent', run: '/run/thing-agent' });
    expect(config.update).toEqual({
      follow: 'target',
      schedule: '*/15 * * * *',
      splayMs: 900_000,
      choose: { kind: 'newest' },
      window: undefined,
      rebootWindow: undefined,
      metered: [],
      fullImage: 'updates',
      defaultTarget: undefined,
      encoding: 'auto',
      health: { deadlineMs: 300_000, commands: [], units: [], stableForMs: 10_000, service: true },
      maxAttempts: 3,
      trialAttempts: 2,
      quarantineMs: undefined,
    });
    expect(config.trust).toEqual({ keys: [], allowUnsigned: false, nameCheck: 'strict' });
    expect(config.system).toEqual({
      rebootCommand: ['systemctl', 'reboot'],
      bootIdFile: '/proc/sys/kernel/random/boot_id',
    });
    expect(config.log).toEqual({ level: 'info', format: 'auto' });
    expect([config.targets, config.measurements, config.watches]).toEqual([[], [], []]);
  });

  test('takes one rate of downloads for the whole day', () => {
    const text = leastConfig.replace('[device]', 'max_rate = "200KiB/s"\n[device]');
    expect(resolve(text).service.maxRates).toEqual([{ window: undefined, bytesPerSecond: 200 * 1024 }]);
  });

  test.each([
    ['rest', 'rest'],
    ['messaging', 'messaging'],
  ] as const)('fetches firmware as it does the rest, with transport = "%s"', (transport, expected) => {
    const messaging = '[service.messaging]\nurl = "mqtts://b"\ntopic_id = "t"\n';
    const text = leastConfig.replace('[device]', `transport = "${transport}"\n${messaging}[device]`);
    expect(resolve(text).service.messaging).toMatchObject({
      protocolVersion: 5,
      firmwareTransport: expected,
      topics: { status: undefined, request: 'v1.t.json' },
      maxMessageBytes: 64 * 1024 * 1024,
    });
  });

  test.each([
    ['{ kind = "grub" }', { kind: 'grub', environment: '/boot/grub/grubenv' }],
    ['{ kind = "custom", handler = "/usr/lib/h" }', { kind: 'custom', handler: '/usr/lib/h' }],
    ['{ kind = "tryboot" }', { kind: 'tryboot', autoboot: '/boot/firmware/autoboot.txt', partitions: { A: 2, B: 3 } }],
    [
      '{ kind = "uboot", fw_env_config = "/etc/e", order_variable = "O", left_variable = "{slot}_L", attempts = 9 }',
      {
        kind: 'uboot',
        fwEnvConfig: '/etc/e',
        orderVariable: 'O',
        leftVariable: '{slot}_L',
        trialVariable: 'BOOT_TRIAL',
        attempts: 9,
      },
    ],
  ])('knows the bootloader %s', (written, expected) => {
    const [target] = resolve(leastConfig + slots('gateway', written)).targets;
    expect(target).toMatchObject({ kind: 'slots', name: 'gateway', bootloader: expected });
  });

  test.each(['newest', 'last', 'first'])('chooses %s by its word', (kind) => {
    expect(resolve(`${leastConfig}[update]\nselect = "${kind}"`).update.choose).toEqual({ kind });
  });

  describe('the target of a raw image', () => {
    const meter = '[targets.meter]\nkind = "mcu"\nport = "/dev/ttyUSB0"\nprotocol = "stm32"\n';
    const second = meter.replace('meter', 'second').replace('USB0', 'USB1');
    const pair = slots('gateway', '{ kind = "grub" }');

    test.each([
      ['the pair of slots', meter + pair, 'gateway'],
      ['the only target', meter, 'meter'],
      ['nothing, of two boards', meter + second, undefined],
      ['nothing, without targets', '', undefined],
      ['what is written', `[update]\ndefault_target = "meter"\n${meter}${pair}`, 'meter'],
    ])('is %s', (_, text, expected) => {
      expect(resolve(leastConfig + text).update.defaultTarget).toBe(expected);
    });
  });
});

function resolve(text: string): Config {
  return resolveConfig(parseConfig('config.toml', text));
}

function slots(name: string, bootloader: string): string {
  return `[targets.${name}]\nkind = "slots"\nslots = { A = "/dev/a", B = "/dev/b" }\nbootloader = ${bootloader}\n`;
}

const noTls = { caFile: undefined, clientCertificateFile: undefined, clientKeyFile: undefined };

const noReduction = {
  scale: undefined,
  offset: undefined,
  deadband: undefined,
  heartbeatMs: undefined,
  over: undefined,
};

const MIB = 1024 * 1024;
const DAY_MS = 86_400_000;

const defaultTelemetry = {
  writeIntervalMs: 10_000,
  writePoints: 500,
  memoryPoints: 10_000,
  maxBytes: 64 * MIB,
  urgent: { maxAgeMs: 365 * DAY_MS, maxBytes: 32 * MIB },
  normal: { maxAgeMs: 30 * DAY_MS, maxBytes: 64 * MIB },
  bulk: { maxAgeMs: 7 * DAY_MS, maxBytes: 64 * MIB },
  minFreeBytes: 16 * MIB,
  flashBytesPerDay: 250 * MIB,
  batchPoints: 500,
  gatherMs: 1_000,
  backlogPointsPerSecond: 1_000,
  sourcePointsPerSecond: 200,
  sourceBytesPerSecondBytes: 256 * 1024,
  report: {
    everyMs: 300_000,
    installed: undefined,
    slot: undefined,
    outcome: undefined,
    reason: undefined,
    uptime: undefined,
    figures: undefined,
  },
};

const wholeResolved: Config = {
  service: {
    url: 'https://things.example.com',
    transport: 'rest',
    keyOnProvisioning: true,
    propertyText: 'plain',
    maxRates: [
      { window: { fromMinute: 8 * 60, toMinute: 18 * 60 }, bytesPerSecond: 50 * 1024 },
      { window: undefined, bytesPerSecond: 2 * MIB },
    ],
    tls: {
      caFile: '/etc/thing-agent/ca.pem',
      clientCertificateFile: '/etc/thing-agent/client.pem',
      clientKeyFile: '/etc/thing-agent/client.key',
    },
    deadlines: { connectMs: 3_000, firstByteMs: 4_000, idleMs: 5_000, totalMs: 60_000, transferMs: 5_400_000 },
    messaging: {
      url: 'mqtts://broker.example.com:8883',
      username: 'gateway',
      passwordFile: '/etc/thing-agent/password',
      tls: noTls,
      topics: {
        activate: 'v1.json',
        request: 'v1.a1b2.json',
        reply: 'v1.a1b2.reply.json',
        status: 'a1b2/status',
        wake: 'wake',
      },
      protocolVersion: 4,
      clientId: 'gw1',
      keepAliveMs: 30_000,
      sessionExpiryMs: 7_200_000,
      requestTimeoutMs: 20_000,
      maxMessageBytes: 524_288,
      firmwareTransport: 'messaging',
    },
  },
  device: {
    serialNumber: 'GW-0001',
    serialNumberFile: undefined,
    factoryVersion: undefined,
    factoryVersionFile: undefined,
    label: undefined,
    deviceType: 'raspberrypi4-64',
  },
  paths: { state: '/var/lib/thing-agent', run: '/run/thing-agent' },
  update: {
    follow: 'updates',
    schedule: '*/15 * * * *',
    splayMs: 600_000,
    choose: { kind: 'pattern', pattern: /^stable-/iu },
    window: { fromMinute: 22 * 60 + 30, toMinute: 5 * 60 },
    rebootWindow: { fromMinute: 3 * 60, toMinute: 4 * 60 },
    metered: ['wwan*', 'ppp0'],
    fullImage: 'same',
    defaultTarget: 'gateway',
    encoding: 'auto',
    health: {
      deadlineMs: 300_000,
      commands: [['/usr/lib/app/healthy', '-q']],
      user: undefined,
      units: ['app.service'],
      stableForMs: 10_000,
      service: true,
    },
    maxAttempts: 4,
    trialAttempts: 1,
    quarantineMs: 86_400_000,
  },
  hooks: {
    beforeInstall: { command: ['/usr/lib/app/may-install', '-q'], user: 'app', timeoutMs: 20_000 },
    beforeReboot: undefined,
    afterCommit: undefined,
    afterRollback: undefined,
  },
  trust: {
    keys: [{ file: '/etc/thing-agent/trust/release.pem' }],
    allowUnsigned: false,
    nameCheck: 'strict',
    downgrade: 'refuse',
  },
  report: { outcome: 'update_outcome', security: undefined, fullImage: 'wanted_whole' },
  system: {
    rebootCommand: ['systemctl', 'reboot'],
    bootIdFile: '/proc/sys/kernel/random/boot_id',
  },
  control: { properties: ['setpoint'] },
  page: {
    place: { kind: 'tcp', host: '::', port: 8443, isLoopback: false },
    passwordFile: '/etc/thing-agent/web-password',
    certificateFile: '/etc/thing-agent/web.pem',
    keyFile: '/etc/thing-agent/web.key',
    clientCaFile: '/etc/thing-agent/web-clients.pem',
    hosts: ['gateway.example.com'],
    allowOperations: true,
  },
  log: { level: 'debug', format: 'json' },
  targets: [
    {
      kind: 'slots',
      name: 'gateway',
      slots: { A: '/dev/disk/by-partlabel/rootfs-a', B: '/dev/disk/by-partlabel/rootfs-b' },
      readOnly: undefined,
      bootloader: {
        kind: 'uboot',
        fwEnvConfig: '/etc/fw_env.config',
        orderVariable: 'BOOT_ORDER',
        leftVariable: 'BOOT_{slot}_LEFT',
        trialVariable: 'BOOT_TRIAL',
        attempts: 3,
        names: { A: 'A', B: 'B' },
      },
    },
    {
      kind: 'mcu',
      name: 'meter',
      port: '/dev/serial/by-id/usb-1',
      protocol: 'stk500v1',
      baud: 57_600,
      reset: { command: ['/usr/bin/reset-meter'] },
      address: undefined,
      format: undefined,
      bootloaderBytes: undefined,
      flashBytes: undefined,
      ramBytes: undefined,
      mcubootKeyFile: undefined,
      smp: { framing: 'console', image: 0, confirm: false },
      xmodem: { variant: 'xmodem-1k', uploadKeys: undefined, startKeys: undefined, fileName: undefined },
    },
  ],
  telemetry: defaultTelemetry,
  measurements: [
    {
      name: 'sensors[0] (temperature)',
      everyMs: 10_000,
      timeoutMs: 10_000,
      ignore: [],
      source: { kind: 'hwmon', chip: 'cpu_thermal', input: 'temp1' },
      outputs: [{ to: { kind: 'event', event: 'temperature', class: 'normal' }, pointer: '', reduction: noReduction }],
    },
    {
      name: 'properties[0] (uptime)',
      everyMs: 300_000,
      timeoutMs: 10_000,
      ignore: [],
      source: { kind: 'system', metric: 'uptime' },
      outputs: [{ to: { kind: 'property', id: 'uptime' }, pointer: '', reduction: noReduction }],
    },
  ],
  watches: [],
};
