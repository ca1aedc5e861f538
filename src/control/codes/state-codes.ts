import type { CodeMeaning } from '../../system/define-errors.ts';
import type { IdleCode, Problem } from '../gateway-state.ts';

const unreadable: CodeMeaning = {
  means: 'The record of updates could not be read, and what was under way is not known.',
  advice: 'see where the gateway stands: agent doctor; installing goes on with the next look',
};

/** What each word of a status (`idleCode`, `problems`) means that is not the code of an error. */
export const stateCodes = {
  'up-to-date': { means: 'What the service names is installed.' },
  'update-available': {
    means: 'A version would be installed now.',
    advice: 'agent --update-now, or wait for the next look',
  },
  'nothing-offered': { means: 'The service names no version.' },
  'not-asked': { means: 'The service was not asked for a version yet.', advice: 'agent check asks it' },
  staging: { means: 'A firmware is being written.', advice: 'follow it: agent --update-now' },
  staged: { means: 'A firmware waits for its reboot.', advice: 'agent reboot' },
  trial: { means: 'A new firmware is being judged.', advice: 'wait; or agent commit keeps it, agent rollback ends it' },
  'rolling-back': { means: 'The gateway goes back.' },
  'no-daemon': { means: 'No daemon runs.', advice: 'systemctl start thing-agent' },
  'daemon-starting': {
    means: 'systemd starts the daemon.',
    advice: 'wait; if it takes minutes: journalctl -u thing-agent',
  },
  'service-failing': { means: 'The last question to the service failed.', advice: 'agent doctor says where it fails' },
  'update-impossible': {
    means: 'Bootloader, slots or state directory fail.',
    advice: 'agent doctor says which, and why',
  },
  'journal-lost': unreadable,
  'last-attempt-failed': { means: 'The last update could not be written.', advice: 'agent log last says why' },
  'last-attempt-refused': { means: 'The last update was refused.', advice: 'agent log last says why' },
  'last-attempt-rolled-back': { means: 'The last update ran, and was given up.', advice: 'agent log last says why' },
} as const satisfies Partial<Record<IdleCode | Problem, CodeMeaning>>;
