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

/** Returns the pattern in `/pattern/` or `/pattern/i`, or undefined for another text or an invalid expression. */
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
      '"target": install the version that the service assigns. "updates": select one of the offered versions. ' +
        '"none": install only files, manually',
    ),
  schedule: text('a cron expression such as "*/15 * * * *"')
    .default('*/15 * * * *')
    .describe('When to check for updates (cron)'),
  splay: duration()
    .default('15m')
    .describe(
      'Checks are spread over this time by serial number, so that a fleet does not call together. Best: the ' +
        'interval of the schedule',
    ),
  select: z
    .string({ error: choiceText })
    .max(256, choiceText)
    .refine((value) => choiceWords.has(value) || parsePattern(value) !== undefined, choiceText)
    .default('newest')
    .describe(
      'For "updates": "newest" by the semantic version of the name, "last", "first", or a pattern such as ' +
        '"/^stable-/". A trust list, named trust- and its number, comes before these',
    ),
  window: dailyWindow()
    .optional()
    .meta({
      description: 'When installing may start, local time; by default at any time',
      examples: ['02:00-05:00'],
    }),
  reboot_window: dailyWindow()
    .optional()
    .meta({
      description:
        'When the reboot into a staged update may start, local time. window then limits only the staging. A ' +
        'waiting update is not armed: after a power loss, the running version starts. agent reboot, agent ' +
        '--update-now and rollbacks do not wait',
      examples: ['03:00-04:00'],
    }),
  full_image: z
    .enum(['updates', 'same'])
    .default('updates')
    .describe(
      'After a delta with another base than the running image: "updates" installs another version of the same ' +
        'name, if the service lists one; "same" requests the same version again',
    ),
  metered: z
    .array(interfaceName())
    .max(16)
    .default([])
    .meta({
      description:
        'Interfaces that cost money by volume: while the default route uses one of them, downloads wait or ' +
        'pause. Files, --force and trust lists are not affected. The agent reads the default routes of the main ' +
        'table (0.0.0.0/0 and ::/0), but not split VPN routes, policy routing or several next hops',
      examples: [['wwan*', 'ppp0']],
    }),
  default_target: text()
    .optional()
    .meta({ description: 'Target of a plain image; by default the pair of slots', examples: ['gateway'] }),
  encoding: z.enum(['auto', 'base64', 'base64url', 'hex']).default('auto').describe('Encoding of the firmware text'),
  health: z
    .strictObject({
      deadline: duration('1s', '1d').default('5m').describe('Time until all conditions must be met'),
      service: flag().default(true).describe('The service must be reachable'),
      commands: z
        .array(command())
        .max(32)
        .default([])
        .meta({ description: 'Programs that must exit with 0', examples: [[['/usr/lib/app/healthy']]] }),
      user: user(),
      units: z
        .array(text().regex(/^[\w:.\\@-]{1,255}$/, 'the name of a unit such as "app.service"'))
        .max(32)
        .default([])
        .meta({ description: 'Units that must be active', examples: [['app.service']] }),
      stable_for: duration('0s', '10m')
        .default('10s')
        .describe('Time for which each unit must stay active without a restart, also beyond the deadline'),
    })
    .prefault({})
    .describe('Conditions for a healthy update; otherwise the gateway rolls back to the previous version'),
  max_attempts: wholeNumber(1, 100).default(3).describe('How often a version may fail before it is blocked'),
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
    description: 'Runs before a release is downloaded',
    examples: [{ command: ['/usr/lib/app/may-install'], user: 'app', timeout: '1m' }],
  }),
  before_reboot: hook().meta({
    description: 'Runs before a staged update is armed and booted',
    examples: [{ command: ['/usr/lib/app/may-reboot'] }],
  }),
  after_commit: hook().meta({
    description: 'Runs, perhaps more than once, after a version was committed; its exit code has no effect',
    examples: [{ command: ['/usr/lib/app/migrate'], timeout: '10m' }],
  }),
  after_rollback: hook().meta({
    description: 'The same after a version was rolled back',
    examples: [{ command: ['/usr/lib/app/tell-operator'] }],
  }),
});

export const reportSchema = z.strictObject({
  outcome: text()
    .optional()
    .meta({ description: 'The property that receives the result of each attempt', examples: ['update_outcome'] }),
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
        'The property that receives the IDs of versions whose deltas have another base, {"versions": ["42"]}: ' +
        'the service may return the full images',
      examples: ['wanted_whole'],
    }),
});

/** Returns `[update]`, with the default of `default_target` if it is not set. */
export function updateSettings(written: z.output<typeof updateSchema>) {
  const { select, ...settings } = settingsOf(updateSchema, written);
  return { ...settings, choose: choiceOf(select) };
}

function choiceOf(choose: string): Choice {
  if (choose === 'last' || choose === 'first') return { kind: choose };
  const pattern = parsePattern(choose);
  return pattern === undefined ? { kind: 'newest' } : { kind: 'pattern', pattern };
}
