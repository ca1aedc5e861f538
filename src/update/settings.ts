import * as z from 'zod';

import { undefinedIfThrows, isSyntaxError } from '../system/errors.ts';
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
  return undefinedIfThrows(isSyntaxError, () => new RegExp(source, `u${flags ?? ''}`));
}

const choiceText = '"newest", "last", "first" or a regular expression such as "/^stable-/"';

export const updateSchema = z.strictObject({
  follow: z
    .enum(['target', 'updates', 'none'])
    .default('target')
    .describe(
      '"target": installs the version that the service assigns. "updates": installs one of the versions that the ' +
        'service offers (see select). "none": you install files manually',
    ),
  schedule: text('a cron expression such as "*/15 * * * *"')
    .default('*/15 * * * *')
    .describe('Cron expression of the update checks, in local time. After a start, the agent also checks within splay'),
  splay: duration()
    .default('15m')
    .describe(
      'Each gateway delays its checks by a fixed part of this time, which depends on its serial number, so that a ' +
        'fleet does not call the service all at the same moment. Best: the interval of schedule',
    ),
  select: z
    .string({ error: choiceText })
    .max(256, choiceText)
    .refine((value) => choiceWords.has(value) || parsePattern(value) !== undefined, choiceText)
    .default('newest')
    .describe(
      'With follow = "updates": "newest" (by the semantic version in the name), "last" or "first" in the list of ' +
        'the service, or the newest whose name matches a pattern such as "/^stable-/". A trust list, whose name is ' +
        'trust- and a number, is applied before any of them',
    ),
  window: dailyWindow()
    .optional()
    .meta({
      description: 'Local time of day when an installation may start; by default, always',
      examples: ['02:00-05:00'],
    }),
  reboot_window: dailyWindow()
    .optional()
    .meta({
      description:
        'Local time of day when the gateway may reboot into a staged update; window then limits only the staging. ' +
        'Before the reboot, a power loss starts the running version. agent reboot, agent --update-now and ' +
        'rollbacks do not wait',
      examples: ['03:00-04:00'],
    }),
  full_image: z
    .enum(['updates', 'same'])
    .default('updates')
    .describe(
      'What to install instead of a delta that was made for another image: "updates": another version of the same ' +
        'name, if the service offers one; "same": the same version, requested again',
    ),
  metered: z
    .array(interfaceName())
    .max(16)
    .default([])
    .meta({
      description:
        'Network interfaces whose data volume is charged. While the default route uses one of them, downloads ' +
        'wait or pause, except trust lists and downloads with --force. The agent reads the default routes of the ' +
        'main table (0.0.0.0/0 and ::/0), but not split VPN routes, policy routing or several next hops',
      examples: [['wwan*', 'ppp0']],
    }),
  default_target: text()
    .optional()
    .meta({
      description: 'Target of an image that names none; by default, the slots with the bootloader',
      examples: ['gateway'],
    }),
  encoding: z
    .enum(['auto', 'base64', 'base64url', 'hex'])
    .default('auto')
    .describe('Encoding of the firmware in the response of the service'),
  health: z
    .strictObject({
      deadline: duration('1s', '1d').default('5m').describe('Time limit until all conditions are met'),
      service: flag().default(true).describe('true: the service must be reachable'),
      commands: z
        .array(command())
        .max(32)
        .default([])
        .meta({ description: 'Programs that must end with exit code 0', examples: [[['/usr/lib/app/healthy']]] }),
      user: user(),
      units: z
        .array(text().regex(/^[\w:.\\@-]{1,255}$/, 'the name of a unit such as "app.service"'))
        .max(32)
        .default([])
        .meta({ description: 'systemd units that must be active', examples: [['app.service']] }),
      stable_for: duration('0s', '10m')
        .default('10s')
        .describe('Time for which each unit must stay active without a restart. It may end after the deadline'),
    })
    .prefault({})
    .describe(
      'Health checks of a new version during its trial. If one fails, the gateway rolls back to the previous version',
    ),
  max_attempts: wholeNumber(1, 100)
    .default(3)
    .describe('Attempts after which a version is blocked, if they failed for a reason that waiting does not fix'),
  trial_attempts: wholeNumber(1, 10).default(2).describe('Maximum number of boots for the trial of a staged slot'),
  quarantine: duration('1h', '3650d')
    .optional()
    .meta({
      description:
        'Time after which a version that failed its trial may be installed again. By default, only after agent unblock VERSION',
      examples: ['30d'],
    }),
});

const hook = () =>
  z
    .strictObject({
      command: command().describe('Program and its arguments'),
      user: user(),
      timeout: duration('1s', '10m').default('1m').describe('Time limit of the program'),
    })
    .optional();

export const hooksSchema = z.strictObject({
  before_install: hook().meta({
    description: 'Runs before a release is downloaded',
    examples: [{ command: ['/usr/lib/app/may-install'], user: 'app', timeout: '1m' }],
  }),
  before_reboot: hook().meta({
    description: 'Runs before the gateway reboots into a staged update',
    examples: [{ command: ['/usr/lib/app/may-reboot'] }],
  }),
  after_commit: hook().meta({
    description: 'Runs after a version was committed, possibly more than once. Its exit code has no effect',
    examples: [{ command: ['/usr/lib/app/migrate'], timeout: '10m' }],
  }),
  after_rollback: hook().meta({
    description: 'Runs after a version was rolled back, possibly more than once. Its exit code has no effect',
    examples: [{ command: ['/usr/lib/app/notify-operator'] }],
  }),
});

export const reportSchema = z.strictObject({
  outcome: text()
    .optional()
    .meta({
      description: 'ID of the property for the result of each update attempt; by default, not reported',
      examples: ['update_outcome'],
    }),
  security: text()
    .optional()
    .meta({
      description: 'ID of the property for the latest security events (agent log --security); by default, not reported',
      examples: ['security_events'],
    }),
  full_image: text()
    .optional()
    .meta({
      description:
        'ID of the property for the versions whose deltas were made for another image, {"versions": ["42"]}, so ' +
        'that the service can offer full images; by default, not reported',
      examples: ['full_images'],
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
