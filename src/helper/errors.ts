import { defineErrors } from '../system/define-errors.ts';

/** The agent and its helper cannot reach, or do not understand, each other. */
export class HelperError extends defineErrors('HelperError', {
  'helper-unreachable': {
    remedy: 'retry',
    exit: 'tryAgain',
    means: 'Nobody answers on the socket of the helper, which installs for an agent without rights.',
    advice:
      'systemctl status thing-helper.socket thing-helper.service; where they do not run, link two-processes.conf as integrate.md says',
  },
  'helper-silent': {
    remedy: 'retry',
    exit: 'tryAgain',
    means: 'The helper has taken the connection, and does not answer.',
    advice: 'try again; if it stays so: systemctl restart thing-helper, and journalctl -u thing-helper',
  },
  'helper-lost': {
    remedy: 'retry',
    exit: 'tryAgain',
    means:
      'The helper ended, or hung up, while it was asked something. What was half done is taken up at the next look.',
    advice: 'journalctl -u thing-helper says why',
  },
  'helper-busy': {
    remedy: 'retry',
    exit: 'tryAgain',
    means: 'The helper serves another process, or something else already: one at a time.',
    advice: 'try again when that has ended: agent status',
  },
  'helper-refused': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'The helper does nothing of this kind for the agent: only root itself may ask for it.',
  },
  'link-malformed': {
    remedy: 'give-up',
    exit: 'protocol',
    means:
      'The agent and the helper do not speak the same language: what came is too long, of another form, or out of turn.',
    advice: 'both are the same program: systemctl restart thing-agent after an upgrade',
  },
}) {}
