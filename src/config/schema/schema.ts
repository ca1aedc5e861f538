import * as z from 'zod';

import { trustSchema } from '../../firmware/settings.ts';
import { mcuTargetSchema } from '../../mcu/settings.ts';
import { packageTargetSchema } from '../../package/settings.ts';
import { serviceSchema } from '../../service/settings.ts';
import { slotsTargetSchema } from '../../slots/settings.ts';
import { parsedOnce } from '../../system/settings/settings.ts';
import { absolutePath, command, text } from '../../system/settings/values.ts';
import { propertySchema, sensorSchema, telemetrySchema, watchSchema } from '../../telemetry/settings.ts';
import { hooksSchema, reportSchema, updateSchema } from '../../update/settings.ts';
import { pageSchema } from '../../web/settings.ts';

export const targetSchema = z.discriminatedUnion('kind', [slotsTargetSchema, mcuTargetSchema, packageTargetSchema]);

/** The values of `protocol` of a board. */
export const boardProtocols = mcuTargetSchema.shape.protocol.options;

const targetName = 'a name of letters, digits, "-" and "_" that starts with a letter';

/** The content of config.toml as it is written. Tables are strict: an unknown key is an error. */
export const configSchema = z.strictObject({
  service: serviceSchema,
  device: z.strictObject({
    device_type: text().meta({
      description: 'Type of this hardware. A release is installed only if it names this type',
      examples: ['raspberrypi4-64'],
    }),
    serial_number: text('a text that is not empty', 128)
      .regex(/\S/, 'a text that is not blank')
      .optional()
      .meta({
        description:
          'Identifies this gateway at the service. By default, the serial number of the hardware (device tree, DMI)',
        examples: ['GW-0001'],
      }),
    serial_number_file: absolutePath('/sys/firmware/devicetree/base/serial-number', 'readable file')
      .optional()
      .describe('File that contains the serial number, instead of serial_number'),
    label: text('a text that is not empty', 64)
      .regex(/^[^\p{Cc}]*\S[^\p{Cc}]*$/u, 'a text that is not blank')
      .optional()
      .meta({ description: 'Name of this gateway in agent status and the web UI', examples: ['Boiler room'] }),
    factory_version: text('a text that is not empty', 200)
      .regex(/\S/, 'a text that is not blank')
      .optional()
      .meta({
        description:
          'Version of this image at the service, so that a new gateway does not download the image again. Better ' +
          'set IMAGE_VERSION in /etc/os-release, which is the default: if both slots share this configuration, ' +
          'factory_version is wrong after the first update',
        examples: ['1.4.0'],
      }),
    factory_version_file: absolutePath('/etc/firmware-version', 'readable file')
      .optional()
      .describe(
        'File with this version, instead of factory_version: in the format of os-release, or with the version alone',
      ),
  }),
  paths: z
    .strictObject({
      state: absolutePath('/var/lib/thing-agent')
        .default('/var/lib/thing-agent')
        .describe('Directory for data that must survive a reboot. $STATE_DIRECTORY, which systemd sets, overrides it'),
      run: absolutePath('/run/thing-agent')
        .default('/run/thing-agent')
        .describe('Directory for sockets and locks. $RUNTIME_DIRECTORY, which systemd sets, overrides it'),
    })
    .prefault({}),
  update: updateSchema.prefault({}),
  hooks: hooksSchema
    .prefault({})
    .describe(
      'Programs that allow, defer or reject an update. They get JSON on standard input (see hooks.md). Exit code 0 ' +
        'allows the update. 75 defers it: the agent runs the hook again later. Any other rejects it: the attempt ' +
        'ends. agent status shows the standard error of the hook',
    ),
  trust: trustSchema.prefault({}),
  report: reportSchema.prefault({}).describe('Properties at the service in which the agent reports about updates'),
  system: z
    .strictObject({
      reboot_command: command()
        .default(['systemctl', 'reboot'])
        .describe(
          'Program that reboots the gateway. An argument of the bootloader, such as "0 tryboot", replaces {argument} or is appended',
        ),
      boot_id_file: absolutePath('/run/boot-id')
        .default('/proc/sys/kernel/random/boot_id')
        .describe(
          'File whose content changes at every boot. A container needs its own file, since it shares the kernel ' +
            'of its host',
        ),
    })
    .prefault({}),
  control: z
    .strictObject({
      properties: z
        .array(text())
        .max(1000)
        .default([])
        .meta({
          description: 'IDs of the properties that members of thing-agent can also read and write',
          examples: [['setpoint']],
        }),
    })
    .prefault({})
    .describe(
      'Members of the group thing-agent can view and send datapoints. Members of thing-operators can use all ' +
        'operations',
    ),
  web: pageSchema.prefault({}).describe('Web UI of this gateway (see web-ui.md)'),
  log: z
    .strictObject({
      level: z.enum(['debug', 'info', 'warn', 'error']).default('info').describe('Lowest level that is logged'),
      format: z
        .enum(['auto', 'text', 'json'])
        .default('auto')
        .describe('Format of the log: "text", "json", or "auto", which is the same as "text"'),
    })
    .prefault({}),
  targets: z.record(text(targetName, 64).regex(/^[A-Za-z][A-Za-z0-9_-]*$/, targetName), targetSchema).default({}),
  sensors: z.array(sensorSchema).max(1000).default([]),
  properties: z.array(propertySchema).max(1000).default([]),
  watch: z.array(watchSchema).max(1000).default([]),
  telemetry: telemetrySchema.prefault({}),
});

/** The checked content of the file with its defaults, in the words of the file. */
export type ConfigFile = z.output<typeof configSchema>;

/** The tables that are correct in themselves; the others are undefined. */
export type ValidTables = { readonly [Table in keyof ConfigFile]: ConfigFile[Table] | undefined };

/** Returns the tables that are correct in themselves. The overload is for the compiler. */
export function validTables(input: Readonly<Record<string, unknown>>): ValidTables;
export function validTables(input: Readonly<Record<string, unknown>>): object {
  const tables = Object.entries(configSchema.shape);
  return Object.fromEntries(tables.map(([name, table]) => [name, table.safeParse(input[name], parsedOnce).data]));
}
