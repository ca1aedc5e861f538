import * as z from 'zod';

import type { DailyWindow } from '../time/daily-window.ts';
import { durationPattern, parseDuration } from '../time/duration.ts';
import { parseUtcTime } from '../time/utc-time.ts';

/**
 * The kinds of values in the file. The message of each one completes the sentence "expected …", which
 * config/file/problems.ts writes.
 */

/** A program and its arguments; never a line for a shell. */
export type Command = readonly [string, ...string[]];

/**
 * The converted value of a text with a unit, and the name of its setting: `splay = "10m"` becomes `splayMs: 600_000`.
 */
interface Unit {
  readonly suffix: string;
  readonly read: (text: string) => unknown;
}

const units = z.registry<Unit>();

function inUnit<T extends z.ZodType>(schema: T, unit: Unit): T {
  units.add(schema, unit);
  return schema;
}

export function unitOf(schema: z.core.$ZodType): Unit | undefined {
  return units.get(schema);
}

// These types say what `unitOf` finds out at run time; settings.ts needs both.
export type DurationText = `${number}${'d' | 'h' | 'm' | 's' | 'ms'}${string}`;
export type SizeText = `${number}${'K' | 'M'}iB`;
export type RateText = `${SizeText}/s`;
export type UtcText = `${number}-${number}-${string}`;
export type WindowText = `${number}:${number}-${number}:${number}`;

/** Below the longest timer of the runtime, which is 24 days. */
const LONGEST_DURATION = '7d';

/** One schema for all who ask for the same, since a start makes hundreds, and each takes a dozen microseconds. */
function shared<Asked extends readonly unknown[], Schema>(make: (...asked: Asked) => Schema) {
  const made = new Map<string, Schema>();
  return (...asked: Asked): Schema => {
    const key = JSON.stringify(asked);
    const schema = made.get(key) ?? make(...asked);
    made.set(key, schema);
    return schema;
  };
}

export const text = shared((what: string = 'a text that is not empty', maxLength: number = 1024) =>
  z
    .string({ error: what })
    .check(z.minLength(1, what), z.maxLength(maxLength, `${what}, of at most ${maxLength} characters`)),
);

export const wholeNumber = shared((min: number, max: number) => {
  const what = `a whole number from ${min} to ${max}`;
  return z.int({ error: what }).check(z.gte(min, what), z.lte(max, what));
});

export const flag = shared(() => z.boolean({ error: 'true or false' }));

export const duration = shared((min: string = '0s', max: string = LONGEST_DURATION) => {
  const what = `a duration such as "90s", "10m" or "1h30m", from ${min} to ${max}`;
  const inRange = (value: string): value is DurationText =>
    durationMs(value) >= durationMs(min) && durationMs(value) <= durationMs(max);
  return inUnit(z.string({ error: what }).regex(durationPattern, what).refine(inRange, what), {
    suffix: 'Ms',
    read: durationMs,
  });
});

/** The milliseconds of a text that `duration` accepted. */
export function durationMs(value: string): number {
  return parseDuration(value) ?? Number.NaN;
}

/** `512KiB`, `64MiB`. The bounds are written the same way. */
export function byteSize(min: string, max: string) {
  const what = `a size such as "${min}" or "64MiB", from ${min} to ${max}`;
  const inRange = (value: string): value is SizeText =>
    sizeBytes(value) >= sizeBytes(min) && sizeBytes(value) <= sizeBytes(max);
  const written = z
    .string({ error: what })
    .regex(/^[1-9]\d{0,8}[KM]iB$/, what)
    .refine(inRange, what);
  return inUnit(written, { suffix: 'Bytes', read: sizeBytes });
}

/** `200KiB/s`. The bounds are written as sizes. */
export function byteRate(min: string, max: string) {
  const what = `a rate such as "200KiB/s", from ${min}/s to ${max}/s`;
  const size = byteSize(min, max);
  const isRate = (value: string): value is RateText =>
    value.endsWith('/s') && size.safeParse(value.slice(0, -'/s'.length)).success;
  return inUnit(z.string({ error: what }).refine(isRate, what), { suffix: 'BytesPerSecond', read: sizeBytes });
}

/** The bytes of a text that `byteSize` or `byteRate` accepted. */
export function sizeBytes(value: string): number {
  return Number.parseInt(value, 10) * (value.includes('MiB') ? 1024 * 1024 : 1024);
}

/**
 * The requirements of a file that a setting names. `secret`, `page password`: only its owner may write it, and not
 * everyone may read it. `authorities` and `certificates`: only its owner may write it, and it is PEM. `program`: may be found in $PATH.
 * `own program`: runs with the agent's rights. `own script`: an interpreter runs it so. `written file`: may be missing; only root and the
 * agent may write in its directory.
 */
export type RequiredFileKind =
  | 'readable file'
  | 'secret'
  | 'page password'
  | 'authorities'
  | 'certificates'
  | 'release key'
  | 'mcuboot key'
  | 'handler'
  | 'own program'
  | 'own script'
  | 'program'
  | 'written file'
  | 'slot'
  | 'device';

interface Reference {
  readonly to: RequiredFileKind | 'user';
}

const references = z.registry<Reference>();

/** Returns the kind of file that a value of this schema names, or `user`. Undefined for any other schema. */
export function referenceOf(schema: z.core.$ZodType): Reference['to'] | undefined {
  return references.get(schema)?.to;
}

/** `need`: the requirements of the file, if it can be checked before it is used. */
export const absolutePath = shared((sample: string = '/etc/thing-agent/ca.pem', need?: RequiredFileKind) => {
  const what = `an absolute path such as "${sample}"`;
  const path = text(what, 4096)
    .regex(/^\/[^\0]*$/, what)
    .register(z.globalRegistry, { examples: [sample] });
  return need === undefined ? path : path.register(references, { to: need });
});

/** A day, or a time in UTC. TOML’s own dates are accepted, too. */
export function utcTime() {
  const what = 'a date such as 2026-12-31, or a time in UTC such as 2026-12-31T18:00:00Z';
  const isTime = (value: string): value is UtcText => parseUtcTime(value) !== undefined;
  const written = z.string({ error: what }).refine(isTime, what);
  return inUnit(
    z.preprocess((value) => (value instanceof Date ? value.toISOString() : value), written),
    { suffix: 'Ms', read: parseUtcTime },
  );
}

/** An address without query and fragment. `schemes` are without the colon. */
export function address(schemes: readonly string[]) {
  const what = `an address that starts with ${schemes.map((scheme) => `${scheme}://`).join(' or ')}, without "?" and "#"`;
  return text(what).refine((value) => isAddress(value, schemes), {
    error: ({ input }) => (typeof input === 'string' && hasWrongPort(input) ? portText : what),
  });
}

const portText = 'an address whose port is a number from 1 to 65535';
const withoutPath = /^\w+:\/\/(?:[^/?#\s]*@)?(?:\[[^\]]*\]|[^/?#\s:]*)(?::(?<port>[^/?#\s]*))?(?=[/?#]|$)/;

/** True if only the port makes this address invalid. */
function hasWrongPort(value: string): boolean {
  const port = withoutPath.exec(value)?.groups?.['port'];
  return port !== undefined && !URL.canParse(`http://a:${port}`);
}

function isAddress(value: string, schemes: readonly string[]): boolean {
  if (/[\s?#]/.test(value) || !URL.canParse(value)) return false;
  const url = new URL(value);
  return schemes.some((scheme) => url.protocol === `${scheme}:` && value.startsWith(`${scheme}://`)) && url.host !== '';
}

/** The name of a user of this machine, whose rights a program gets. */
export const user = shared(() => {
  const what = 'the name of a user such as "app"';
  return text(what, 64)
    .regex(/^[a-zA-Z0-9_][a-zA-Z0-9_.-]*\$?$/, what)
    .register(references, { to: 'user' })
    .optional()
    .register(z.globalRegistry, {
      description: 'User that the program runs as; by default the agent’s',
      examples: ['app'],
    });
});

/**
 * The name of a network interface: at most 15 characters (IFNAMSIZ, netdevice(7)). A `*` at the end stands for
 * anything, and is the only pattern.
 */
export function interfaceName() {
  const what = 'the name of a network interface such as "wwan0" or "wwan*"';
  return z.string({ error: what }).regex(/^(?!\.{1,2}$)[^\s/:*?]{1,15}\*?$/, what);
}

/** `["program", "argument", …]` */
export const command = shared(() => {
  const what = 'a list of texts, the program first, such as ["systemctl", "reboot"]';
  const words = z.tuple([text(what)], z.string({ error: what }), { error: what }) satisfies z.ZodType<Command>;
  return words.register(references, { to: 'program' });
});

const windowPattern = /^([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)$/;

export function dailyWindow() {
  const what = 'two times of day that differ, such as "02:00-05:00"';
  const isWindow = (value: string): value is WindowText => {
    const window = parseDailyWindow(value);
    return window !== undefined && window.fromMinute !== window.toMinute;
  };
  return inUnit(z.string({ error: what }).refine(isWindow, what), { suffix: '', read: parseDailyWindow });
}

export function parseDailyWindow(value: string): DailyWindow | undefined {
  const match = windowPattern.exec(value);
  if (match === null) return undefined;
  const [fromHour, fromMinute, toHour, toMinute] = match.slice(1).map(Number);
  return { fromMinute: minutes(fromHour, fromMinute), toMinute: minutes(toHour, toMinute) };
}

function minutes(hour = 0, minute = 0): number {
  return hour * 60 + minute;
}
