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
import type { Choice } from './policy/choose.ts';

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
  follow: z
    .enum(['target', 'updates', 'none'])
    .default('target')
    .describe(
      '"target": install what the service names. "updates": choose among what it offers. "none": only what a person installs',
    ),
  schedule: text('a cron expression such as "*/15 * * * *"').default('*/15 * * * *').describe('When to look (cron)'),
  splay: duration()
    .default('15m')
    .describe(
      'Looks are spread over so long, by serial number, so that a fleet does not call at once: best over all that lies between' +
        ' two of them',
    ),
  select: z
    .string({ error: choiceText })
    .max(256, choiceText)
    .refine((value) => choiceWords.has(value) || parsePattern(value) !== undefined, choiceText)
    .default('newest')
    .describe(
      'Of "updates": "newest" by semantic version of the name, "last", "first", or a pattern such as "/^stable-/". Lists of keys' +
        ' and revocations come before all of these, if they are called trust- and their number, as agent artifact trust proposes',
    ),
  window: dailyWindow()
    .optional()
    .meta({
      description: 'When installing may begin, local time; without it at any time',
      examples: ['02:00-05:00'],
    }),
  reboot_window: dailyWindow()
    .optional()
    .meta({
      description:
        'When the reboot into a staged firmware may begin, local time; window is of the staging alone then. What waits is not' +
        ' armed: a power cut starts the old one. Who asks for agent reboot or agent --update-now does not wait, nor does a way' +
        ' back',
      examples: ['03:00-04:00'],
    }),
  full_image: z
    .enum(['updates', 'same'])
    .default('updates')
    .describe(
      'After a delta that does not fit what runs: "updates" installs another version of its name, if the service lists one;' +
        ' "same" asks for the same again',
    ),
  metered: z
    .array(interfaceName())
    .max(16)
    .default([])
    .meta({
      description:
        'Interfaces whose bytes cost: while the default route leads through one of them, downloads wait, or pause. Who forces an' +
        ' update, installs a file, or revokes a key does not. Looked at are the default routes of the main table, 0.0.0.0/0 and' +
        ' ::/0; those of a VPN split in two halves, of policy tables and of several next hops are not seen',
      examples: [['wwan*', 'ppp0']],
    }),
  default_target: text()
    .optional()
    .meta({ description: 'Where a raw image goes; without it to the pair of slots', examples: ['gateway'] }),
  encoding: z.enum(['auto', 'base64', 'base64url', 'hex']).default('auto').describe('Of the firmware’s text'),
  health: z
    .strictObject({
      deadline: duration('1s', '1d').default('5m').describe('Until when all has to be well'),
      service: flag().default(true).describe('The service has to be reachable'),
      commands: z
        .array(command())
        .max(32)
        .default([])
        .meta({ description: 'Programs that have to exit with 0', examples: [[['/usr/lib/app/healthy']]] }),
      user: user(),
      units: z
        .array(text().regex(/^[\w:.\\@-]{1,255}$/, 'the name of a unit such as "app.service"'))
        .max(32)
        .default([])
        .meta({ description: 'Units that have to be active', examples: [['app.service']] }),
      stable_for: duration('0s', '10m')
        .default('10s')
        .describe('So long each unit has to stay active without being started again, also beyond the deadline'),
    })
    .prefault({})
    .describe('What has to be well after an update; else the gateway goes back to what ran before'),
  max_attempts: wholeNumber(1, 100).default(3).describe('How often one version may fail before it is held back'),
  trial_attempts: wholeNumber(1, 10).default(2).describe('How often a staged slot may be booted for its trial'),
  quarantine: duration('1h', '3650d')
    .optional()
    .meta({
      description: 'When a release that failed its trial may be tried again. Unset: only after agent unblock VERSION',
      examples: ['30d'],
    }),
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
  before_install: hook().meta({
    description: 'Asked before a firmware is transferred',
    examples: [{ command: ['/usr/lib/app/may-install'], user: 'app', timeout: '1m' }],
  }),
  before_reboot: hook().meta({
    description: 'Asked before what is staged is armed and booted',
    examples: [{ command: ['/usr/lib/app/may-reboot'] }],
  }),
  after_commit: hook().meta({
    description: 'Told, perhaps more than once, that a version was kept; its exit code changes nothing',
    examples: [{ command: ['/usr/lib/app/migrate'], timeout: '10m' }],
  }),
  after_rollback: hook().meta({
    description: 'The same of a version that was left',
    examples: [{ command: ['/usr/lib/app/tell-operator'] }],
  }),
});

export const reportSchema = z.strictObject({
  outcome: text()
    .optional()
    .meta({ description: 'The property that receives the end of each attempt', examples: ['update_outcome'] }),
  security: text()
    .optional()
    .meta({
      description: 'The property that receives the last security events, which agent log --security shows, too',
      examples: ['security_events'],
    }),
  full_image: text()
    .optional()
    .meta({
      description:
        'The property that receives the ids of versions whose deltas did not fit, {"versions": ["42"]}: the service may give' +
        ' these whole',
      examples: ['wanted_whole'],
    }),
});

/** `[update]`, but for what `default_target` is where nothing is written. */
export function updateSettings(written: z.output<typeof updateSchema>) {
  const { select, ...settings } = settingsOf(updateSchema, written);
  return { ...settings, choose: choiceOf(select) };
}

function choiceOf(choose: string): Choice {
  if (choose === 'last' || choose === 'first') return { kind: choose };
  const pattern = parsePattern(choose);
  return pattern === undefined ? { kind: 'newest' } : { kind: 'pattern', pattern };
}
