import type { ProgressPhase } from '../reports.ts';

export const phaseTitles: Readonly<Record<ProgressPhase, string>> = {
  checking: 'checking',
  staging: 'staging',
  verifying: 'verifying',
  staged: 'staged',
  rebooting: 'rebooting',
  health: 'checking health',
  flashing: 'flashing',
  committing: 'committing',
  'rolling-back': 'rolling back',
  switching: 'reporting to the service',
  done: 'done',
};
