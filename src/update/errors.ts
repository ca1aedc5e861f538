import { defineErrors, permanent, transient } from '../system/define-errors.ts';
import type { CodeMeaning } from '../system/define-errors.ts';
import { sharedErrors } from '../system/shared-errors.ts';

/** An update, a commit or a rollback is refused. */
export class UpdateError extends defineErrors('UpdateError', {
  'not-verified': permanent.refused(
    'Something was to be booted or flashed that is not known to hold what was vouched for.',
    'install the release again: agent --update-now',
  ),
  'slot-incomplete': permanent.refused(
    'A firmware leaves out a partition of the slot, and nothing vouches for what that would hold: a slot boots as a whole.',
    'install a release that has a payload for each target of kind slots',
  ),
  'hook-rejected': permanent.refused(
    'A program of this gateway ([hooks]) does not want this firmware. It counts against the attempts of the version.',
    'agent --update-now --force asks no hook',
  ),
  'hook-deferred': transient.tryAgain(
    'A program of this gateway ([hooks]) wants to be asked later, or could not be asked. The pauses grow.',
    'agent --update-now asks again; with --force it asks no hook',
  ),
  'duplicate-target': permanent.refused(
    'A firmware has two payloads for one target.',
    'write the artifact with one payload for each target',
  ),
  'no-payload': permanent.refused('A firmware has no payload.', 'write the artifact with a payload'),
  'target-unknown': permanent.refused(
    'The configuration does not have the target that a payload, or an update under way, needs.',
    'add the target to [targets], or write the artifact for a configured target',
  ),
  'delta-base-mismatch': sharedErrors['delta-base-mismatch'],
  'release-revoked': sharedErrors['release-revoked'],
  'no-previous-version': permanent.refused(
    'There is nothing that a rollback could go back to.',
    'agent status shows what runs; where only a board cannot go back, --force takes the gateway back without it',
  ),
  'name-mismatch': permanent.refused(
    'The service offers a signed release under another name than the one that it was signed with.',
    'name the version at the service as the release is signed, or set [trust] name_check = "off"',
  ),
  downgrade: permanent.refused(
    'The release is older than one that was installed before, by its signed security version or by [trust] downgrade.',
    'install a newer release; root can lift this once: agent install FILE --allow-downgrade',
  ),
  'no-trial': permanent.refused('There is no trial to commit.', 'agent status shows what runs'),
  'trial-in-progress': permanent.refused(
    'A new firmware runs on trial: there is no download or wait that could be cancelled.',
    'agent commit keeps it, agent rollback ends it',
  ),
  'update-in-progress': permanent.refused('An update is under way.', 'agent status shows what runs'),
  'update-pending': permanent.tryAgain(
    'A file was not installed, since another version is staged and waits for its boot.',
    'agent cancel gives the other one up, agent reboot starts it; then install the file',
  ),
  'no-longer-trusted': permanent.refused(
    'What was staged is not vouched for any more: its release or its key was revoked, or [trust] has changed.',
    'offer a release that a trusted key signed; agent log --security tells what changed',
  ),
  'clock-unsynchronized': transient.failed(
    'The clock of this gateway is not set: it is not known whether the [update] window is open, or a certificate valid.',
    'check the network time service: TLS certificates and maintenance windows need a clock',
  ),
  quarantined: permanent.refused(
    'This release failed its trial and is blocked until an operator unblocks it.',
    'install another version, lift it with agent unblock VERSION, or repeat with --force',
  ),
  'trust-list-mismatch': transient.protocol(
    'What was a signed list of keys and revocations when it was looked at was another thing when it was fetched.',
    'see that the service, and what stands before it, answers the same twice',
  ),
  'hold-needs-clock': transient.tryAgain(
    'A hold with an end was asked for, and the clock of the gateway is not set.',
    'hold without an end: agent hold; agent resume lifts it',
  ),
  'version-not-blocked': permanent.refused(
    'No version of that name, id or digest is held back.',
    'agent status lists those that are',
  ),
}) {}

/** Why an update waits, or how an attempt ended: codes of `status` and of reports that belong to no error. */
export const updateCodes = {
  'attempts-exhausted': {
    means: 'The version failed as often as [update] attempts allows, in ways that waiting does not cure.',
    advice: 'mend the version, name another one, let it be tried again with agent unblock, or repeat with --force',
  },
  'retry-backoff': {
    means: 'The last attempt failed; the next ones come after growing pauses.',
    advice: 'agent --update-now does not wait',
  },
  flapping: {
    means:
      'The service had this version and another one installed by turns; each further time waits longer, up to a day.',
    advice: 'find out who changes the version at the service; agent --update-now does not wait',
  },
  'on-hold': {
    means: 'A person wants nothing to be installed for now (agent hold).',
    advice: 'agent resume lifts that; --force goes through for one order',
  },
  'outside-window': {
    means: 'Installing may not begin at this time of day ([update] window).',
    advice: 'wait for the window, or repeat with --force',
  },
  'outside-reboot-window': {
    means: 'A firmware is staged, and the reboot into it may not begin at this time of day ([update] reboot_window).',
    advice: 'wait for the window, or ask for agent reboot',
  },
  'metered-connection': {
    means:
      'A default route leads through an interface whose bytes cost ([update] metered); downloads wait for another one.',
    advice: 'connect another network, or repeat with --force',
  },
  'config-unusable': {
    means:
      'The configuration file cannot be used any more. The agent works with what it had read; its next start, and so a trial of a new firmware, would fail.',
    advice: 'agent config check names the line; mend it, then: systemctl reload thing-agent',
  },
  'manual-override': {
    means: 'A person installed a file, or went back: that stays until the service names another version.',
    advice: 'agent --update-now --force installs what the service names',
  },
  ok: {
    means: 'The attempt succeeded. As the state of a gateway: it runs, and no action is needed.',
    advice: 'nothing',
  },
  unhealthy: {
    means: 'The new firmware was not found healthy within its deadline.',
    advice: 'see the reason; mend the firmware',
  },
  'service-down': {
    means: 'The new firmware was healthy, but the service said that it is down; the version is tried again later.',
    advice: 'nothing: the agent tries it again later',
  },
  'service-unreached': {
    means:
      'The service was not to be had from the new firmware. Where the old one could not reach it either, the version is tried again later; else the firmware is to blame.',
    advice: 'see the reason; where the firmware is to blame, its network configuration or its certificates are',
  },
  'trial-fell-back': {
    means: 'The bootloader fell back before the new slot was committed.',
    advice: 'see the boot log of the new slot',
  },
  'fell-back': {
    means:
      'The other slot runs again, after this version had been committed: the bootloader fell back, or a person chose it.',
    advice: 'see the boot log of the slot that was left',
  },
  'health-unknown': {
    means: 'The new firmware was never found healthy: its judging was interrupted again and again.',
    advice: 'find out what restarts the gateway during the health checks: agent log',
  },
  manual: { means: 'A person rolled the version back.', advice: 'nothing; to install it again: agent --update-now' },
  interrupted: {
    means: 'A download or the installation of a file was interrupted.',
    advice: 'a download resumes at the next check; to install a file: agent install FILE',
  },
  superseded: { means: 'The attempt was interrupted, and another version followed.', advice: 'nothing' },
  withdrawn: { means: 'The service does not name the version any more.', advice: 'nothing' },
  cancelled: {
    means: 'A person cancelled it; it is not begun again by itself.',
    advice: 'agent --update-now begins it again',
  },
  overridden: {
    means: 'A person installed something else.',
    advice: 'nothing; to install the assigned version: agent --update-now --force',
  },
  'board-not-restored': {
    means: 'A rollback could not give a board back what it held.',
    advice: 'agent mcu restore NAME',
  },
} as const satisfies Readonly<Record<string, CodeMeaning>>;
