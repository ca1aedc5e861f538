import * as z from 'zod';

import { settingsOf } from '../system/settings/settings.ts';
import {
  command,
  dailyWindow,
  duration,
  flag,
  interfaceName,
  text,
  user,
  wholeNumber,
} from '../system/settings/values.ts';
import type { Choice } from './choice/choose.ts';

const choiceWords = new Set(['newest', 'last', 'first']);
const choicePattern = /^\/(.+)\/(i?)$/s;

/** The pattern in `/pattern/` or `/pattern/i`; undefined: the text is none, or no regular expression. */
function parsePattern(value: string): RegExp | undefined {
  const [, source, flags] = choicePattern.exec(value) ?? [];
  if (source === undefined) return undefined;
  try {
    return new RegExp(source, `u${flags ?? ''}`);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

const choiceText = '"newest", "last", "first" or a regular expression such as "/^stable-/"';

export const updateSchema = z.strictObject({
  follow: z.enum(['target', 'updates', 'none']).default('target').describe('Which version of the service to follow'),
  schedule: text('a cron expression such as "*/15 * * * *"').default('*/15 * * * *'),
  splay: duration()
    .default('15m')
    .describe('Spread by serial number, so that a fleet does not call at once; best as long as between two looks'),
  choose: z
    .string({ error: choiceText })
    .max(256, choiceText)
    .refine((value) => choiceWords.has(value) || parsePattern(value) !== undefined, choiceText)
    .default('newest')
    .describe('Of the versions to switch to, with follow = "updates"'),
  window: dailyWindow().optional().describe('When installing may begin, local time'),
  reboot_window: dailyWindow()
    .optional()
    .describe('When the reboot into a staged firmware may begin, local time; window is of the staging alone then'),
  whole_image: z
    .enum(['updates', 'same'])
    .default('updates')
    .describe('After a delta that does not fit what runs: look for another version of its name, or ask for the same'),
  metered: z
    .array(interfaceName())
    .max(16)
    .default([])
    .describe(
      'Interfaces whose bytes cost, such as "wwan*": while a default route leads through one of them, downloads wait',
    ),
  default_target: text().optional().describe('Where a raw image goes'),
  encoding: z.enum(['auto', 'base64', 'base64url', 'hex']).default('auto'),
  health: z
    .strictObject({
      deadline: duration('1s', '1d').default('5m'),
      commands: z.array(command()).max(32).default([]),
      user: user(),
      units: z.array(text()).max(32).default([]),
      service: flag().default(true),
    })
    .prefault({}),
  attempts: wholeNumber(1, 100).default(3).describe('How often one version may fail before it is held back'),
  trial_attempts: wholeNumber(1, 10).default(2).describe('How often a staged slot may be booted for its trial'),
  quarantine: duration('1h', '3650d')
    .default('30d')
    .describe('After so long a firmware that ended badly may be tried again'),
});

const hook = () =>
  z
    .strictObject({
      command: command(),
      user: user(),
      timeout: duration('1s', '10m').default('1m'),
    })
    .optional();

export const hooksSchema = z.strictObject({
  before_install: hook().describe('Asked before a firmware is transferred'),
  before_reboot: hook().describe('Asked before what is staged is armed and booted'),
  after_commit: hook().describe('Told that a version was kept'),
  after_rollback: hook().describe('Told that a version was left'),
});

export const reportSchema = z.strictObject({
  outcome: text().optional().describe('The property that receives the end of each attempt'),
  security: text().optional().describe('The property that receives the last security events'),
  whole_image: text().optional().describe('The property that receives the ids of versions that are wanted whole'),
});

/** `[update]`, but for what `default_target` is where nothing is written. */
export function updateSettings(written: z.output<typeof updateSchema>) {
  return { ...settingsOf(updateSchema, written), choose: choiceOf(written.choose) };
}

function choiceOf(choose: string): Choice {
  if (choose === 'last' || choose === 'first') return { kind: choose };
  const pattern = parsePattern(choose);
  return pattern === undefined ? { kind: 'newest' } : { kind: 'pattern', pattern };
}
