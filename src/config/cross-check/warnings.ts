import { durationMs } from '../../system/settings/values.ts';
import type { Finding } from '../cross-check.ts';
import type { ConfigFile } from '../schema/schema.ts';
import { describeIdleStep } from './schedule-steps.ts';
import { isPlainHttp, isPlainMqtt } from './service.ts';

/** The time of systemd/thing-agent-trial.timer (30 minutes after boot), minus the time that a start may take. */
const LONGEST_GUARDED_DEADLINE = '25m';

/** Finds settings that are allowed but weaken a promise, or have no effect. */
export function findWarnings(file: ConfigFile): readonly Finding[] {
  const warnings: Finding[] = [...healthWarnings(file.update), ...scheduleWarnings(file.update)];
  const warn = (path: readonly string[], message: string): void => void warnings.push({ path, message });
  const { service, trust, targets } = file;
  if (trust.allow_unsigned) {
    warn(['trust', 'allow_unsigned'], 'trust.allow_unsigned = true: firmware is installed without a signature');
  } else if (trust.keys.length === 0) {
    warn(['trust'], 'trust.keys is empty and trust.allow_unsigned is false: updates will not be installed');
  }
  if (isPlainHttp(service.url)) {
    warn(['service', 'url'], 'service.url is plain http: the API key travels unprotected');
  }
  const { messaging } = service;
  if (messaging !== undefined && isPlainMqtt(messaging.url)) {
    const what = messaging.password_file === undefined ? 'the API key travels' : 'the API key and the password travel';
    warn(['service', 'messaging', 'url'], `service.messaging.url is plain mqtt: ${what} unprotected`);
  }
  if (Object.keys(targets).length === 0) warn([], 'there are no [targets]: updates will not be installed');
  return warnings;
}

function healthWarnings({ health }: ConfigFile['update']): Finding[] {
  if (durationMs(health.deadline) <= durationMs(LONGEST_GUARDED_DEADLINE)) return [];
  const message =
    `update.health.deadline = "${health.deadline}" is longer than ${LONGEST_GUARDED_DEADLINE}: thing-agent-trial.timer ` +
    'ends a trial 30 minutes after boot, so raise its OnBootSec= in a drop-in, too';
  return [{ path: ['update', 'health', 'deadline'], message }];
}

function scheduleWarnings({ schedule }: ConfigFile['update']): Finding[] {
  const why = describeIdleStep(schedule);
  return why === undefined ? [] : [{ path: ['update', 'schedule'], message: `update.schedule: ${why}` }];
}
