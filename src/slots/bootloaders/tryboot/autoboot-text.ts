import type { SlotName } from '../../../update/ports.ts';

/**
 * The file autoboot.txt of the Raspberry Pi bootloader (Raspberry Pi documentation, "config.txt", section
 * autoboot.txt): at most 512 bytes, with filters `[all]`, `[none]` and `[tryboot]`. A later line wins over an earlier
 * one. With `tryboot_a_b=1` a trial chooses a partition instead of files with another name.
 */
export interface Autoboot {
  readonly text: string;
  /** The partition that boots by default, if one is named. */
  readonly partition: number | undefined;
  /** The partition that boots once after `reboot "0 tryboot"`. */
  readonly trialPartition: number | undefined;
  readonly partitionsAreTried: boolean;
  /** An unknown filter before a partition. */
  readonly unknownFilter: string | undefined;
}

export const MAX_AUTOBOOT_BYTES = 512;

type Section = 'all' | 'tryboot' | 'none' | 'unknown';

interface Line {
  /** The line with its line end. */
  readonly text: string;
  readonly section: Section;
  readonly filter: string;
  readonly setting: { readonly key: 'boot_partition' | 'tryboot_a_b'; readonly value: number | undefined } | undefined;
}

export function parseAutoboot(text: string): Autoboot {
  const lines = splitLines(text);
  const inAll = lines.filter((line) => line.section === 'all');
  const inTrial = lines.filter((line) => line.section === 'all' || line.section === 'tryboot');
  return {
    text,
    partition: lastValue(inAll, 'boot_partition'),
    trialPartition: lastValue(inTrial, 'boot_partition'),
    partitionsAreTried: lastValue(inTrial, 'tryboot_a_b') === 1,
    unknownFilter: lines.find(({ section, setting }) => section === 'unknown' && setting !== undefined)?.filter,
  };
}

/**
 * The file with these partitions. All other lines stay where they are. A line about partitions in a form that the
 * firmware may not understand (blanks, capitals) is rewritten.
 */
export function withPartitions(text: string, partition: number, trialPartition: number): string {
  const edited = splitLines(text)
    .map((line) => editLine(line, partition, trialPartition))
    .join('');
  if (says(edited, partition, trialPartition)) return edited;
  const foreign = splitLines(text).filter((line) => line.setting === undefined || line.section === 'none');
  const kept = foreign
    .map((line) => line.text)
    .filter((line) => !isUnclear(line))
    .join('')
    .trimEnd();
  const block = `[all]\ntryboot_a_b=1\nboot_partition=${partition}\n[tryboot]\nboot_partition=${trialPartition}\n`;
  return kept === '' ? block : `${kept}\n${block}`;
}

/** The last word of the agent in a slot that it left. The firmware takes its line for a comment. */
export interface ExitReason {
  readonly slot: SlotName;
  /** The code of an error. */
  readonly code: string;
}

const LAST_WORD = /^#thing\.left=([AB]):([a-z][a-z0-9-]{0,39})\n/m;

export function exitReasonIn(text: string): ExitReason | undefined {
  const [, slot, code] = LAST_WORD.exec(text) ?? [];
  return (slot === 'A' || slot === 'B') && code !== undefined ? { slot, code } : undefined;
}

/**
 * The text with this last word; without it if it does not fit into `roomBytes`, since the file must not grow for it.
 */
export function withExitReason(text: string, word: ExitReason | undefined, roomBytes: number): string {
  const without = text.replace(LAST_WORD, '');
  if (word === undefined) return without;
  const said = `${without.trimEnd()}\n#thing.left=${word.slot}:${word.code}\n`;
  return Buffer.byteLength(said) <= roomBytes ? said : without;
}

function says(text: string, partition: number, trialPartition: number): boolean {
  const now = parseAutoboot(text);
  const isSaid = now.partition === partition && now.trialPartition === trialPartition && now.partitionsAreTried;
  return isSaid && !splitLines(text).some((line) => isUnclear(line.text));
}

function editLine({ text, section, setting }: Line, partition: number, trialPartition: number): string {
  if (setting?.key !== 'boot_partition' || (section !== 'all' && section !== 'tryboot')) return text;
  return text.replace(/\d+/, String(section === 'all' ? partition : trialPartition));
}

function lastValue(lines: readonly Line[], key: 'boot_partition' | 'tryboot_a_b'): number | undefined {
  return lines.findLast(({ setting }) => setting?.key === key)?.setting?.value;
}

/** Splits a text into lines. Consecutive blank lines count as one, since they only fill the sector of the file. */
function splitLines(text: string): readonly Line[] {
  let filter = 'all';
  return (text.match(/\n+|[^\n]+\n?/g) ?? []).map((line) => {
    if (line.startsWith('[')) filter = /^\[(.*)\]\s*$/s.exec(line)?.[1] ?? line.trimEnd();
    return { text: line, section: sectionOf(filter), filter, setting: settingOf(line) };
  });
}

function sectionOf(filter: string): Section {
  return filter === 'all' || filter === 'tryboot' || filter === 'none' ? filter : 'unknown';
}

function settingOf(line: string): Line['setting'] {
  const match = /^(boot_partition|tryboot_a_b)=(.*)$/s.exec(line);
  if (match?.[1] === undefined) return undefined;
  const value = match[2]?.trimEnd() ?? '';
  return {
    key: match[1] === 'boot_partition' ? 'boot_partition' : 'tryboot_a_b',
    value: /^\d{1,3}$/.test(value) ? Number(value) : undefined,
  };
}

function isUnclear(line: string): boolean {
  return settingOf(line) === undefined && /^\s*(boot_partition|tryboot_a_b)\s*=/i.test(line);
}
