import { defineErrors, giveUp, retry } from '../system/define-errors.ts';

/** The agent and its helper cannot reach, or do not understand, each other. */
export class HelperError extends defineErrors('HelperError', {
  'helper-unreachable': retry.tryAgain(
    'Nobody answers on the socket of the helper, which installs for an agent without rights.',
    'systemctl status thing-helper.socket thing-helper.service; where they do not run, link two-processes.conf as integrate.md says',
  ),
  'helper-silent': retry.tryAgain(
    'The helper has taken the connection, and does not answer.',
    'try again; if it stays so: systemctl restart thing-helper, and journalctl -u thing-helper',
  ),
  'helper-lost': retry.tryAgain(
    'The helper ended, or hung up, while it was asked something. What was half done is taken up at the next look.',
    'journalctl -u thing-helper says why',
  ),
  'helper-busy': retry.tryAgain(
    'The helper serves another process, or something else already: one at a time.',
    'try again when that has ended: agent status',
  ),
  'helper-refused': giveUp.refused(
    'The helper does nothing of this kind for the agent: only root itself may ask for it.',
  ),
  'link-malformed': giveUp.protocol(
    'The agent and the helper do not speak the same language: what came is too long, of another form, or out of turn.',
    'both are the same program: systemctl restart thing-agent after an upgrade',
  ),
}) {}
