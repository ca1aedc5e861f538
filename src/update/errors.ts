import type { DeferralCode } from '../control/gateway-state.ts';
import { defineErrors, permanent, transient } from '../system/define-errors.ts';
import type { CodeMeaning } from '../system/define-errors.ts';
import { sharedErrors } from '../system/shared-errors.ts';

/** An update, a commit or a rollback is refused. */
export class UpdateError extends defineErrors('UpdateError', {
  'not-verified': permanent.refused(
    'An image to be booted or flashed differs from the verified one.',
    'install the release again: agent --update-now',
  ),
  'slot-incomplete': permanent.refused(
    'A release leaves out a partition of the slot, and the content of that partition is not verified.',
    'install a release that has a payload for each target of kind slots',
  ),
  'hook-rejected': permanent.refused(
    'A consent hook rejected this release. It counts as a failed attempt of the version.',
    'to install it without the hook: agent --update-now --force, or agent install FILE --force for a file',
  ),
  'hook-deferred': transient.tryAgain(
    'A consent hook deferred the update, or could not run. It runs again after growing pauses.',
    'to run the hook now: agent --update-now; to skip it, add --force',
  ),
  'duplicate-target': permanent.refused(
    'A release has two payloads for one target.',
    'write the artifact with one payload for each target',
  ),
  'no-payload': permanent.refused('A release has no payload.', 'write the artifact with a payload'),
  'target-unknown': permanent.refused(
    'The configuration lacks the target of a payload or of an update in progress.',
    'add the target to [targets], or write the artifact for a configured target',
  ),
  'delta-base-mismatch': sharedErrors['delta-base-mismatch'],
  'release-revoked': sharedErrors['release-revoked'],
  'no-previous-version': permanent.refused(
    'There is no previous version for a rollback.',
    'install another release: agent install FILE, or assign one at the service',
  ),
  'name-mismatch': permanent.refused(
    'The service offers a signed release under another name than the signed one.',
    'give the version at the service the signed name, or set [trust] name_check = "off"',
  ),
  downgrade: permanent.refused(
    'The release is older than an installed one, by its signed security version or by [trust] downgrade.',
    'install a newer release; root can allow this once: agent install FILE --allow-downgrade',
  ),
  'no-trial': permanent.refused('There is no trial to commit.', 'agent status'),
  'trial-in-progress': permanent.refused(
    'A release is on trial, so there is no download or wait to cancel.',
    'agent commit, or agent rollback',
  ),
  'update-in-progress': permanent.refused('An update is in progress.', 'agent status'),
  'update-pending': permanent.tryAgain(
    'A file was not installed, since another version is staged and waits for its reboot.',
    'discard the other version with agent cancel, or boot it with agent reboot; then install the file',
  ),
  'no-longer-trusted': permanent.refused(
    'A staged release is no longer trusted: it or its key was revoked, or [trust] changed.',
    'offer a release signed with a trusted key; agent log --security shows the change',
  ),
  'clock-unsynchronized': transient.failed(
    'The clock is not synchronized, so neither the [update] window nor certificates can be checked.',
    'check the network time service: TLS certificates and maintenance windows need a clock',
  ),
  quarantined: permanent.refused(
    'This release failed its trial, or an operator rolled it back while it was on trial. It is blocked until an operator unblocks it.',
    'install another version, run agent unblock VERSION, or repeat with --force',
  ),
  'trust-list-mismatch': permanent.protocol(
    'A version with the name of a trust list is not one.',
    'give the name trust-N only to trust lists',
  ),
  'hold-needs-clock': transient.tryAgain(
    'A hold with a duration needs a synchronized clock.',
    'run agent hold without a duration; it lasts until agent resume',
  ),
  'version-ambiguous': permanent.refused(
    'Several blocked versions have this name, ID or digest.',
    'repeat the command with the digest of one of them',
  ),
  'version-not-blocked': permanent.refused(
    'No version with this name, ID or digest is blocked.',
    'to list the blocked versions: agent status',
  ),
}) {}

/** Reasons for deferring an update, and results of attempts: codes of `status` and of reports that are not errors. */
export const updateCodes = {
  'attempts-exhausted': {
    means: 'The version failed permanently as often as [update] max_attempts allows.',
    advice: 'fix the version, offer another one, run agent unblock VERSION, or repeat with --force',
  },
  'retry-backoff': {
    means: 'The last attempt failed; it is retried after growing pauses.',
    advice: 'to retry now: agent --update-now',
  },
  flapping: {
    means: 'This version and another one replaced each other repeatedly; each further time waits longer, up to a day.',
    advice: 'find out what changes the version at the service; to retry now: agent --update-now',
  },
  'on-hold': {
    means: 'An operator paused updates (agent hold).',
    advice: 'agent resume; --force installs one update anyway',
  },
  'outside-window': {
    means: 'Outside the maintenance window ([update] window).',
    advice: 'wait for the window, or repeat with --force',
  },
  'outside-reboot-window': {
    means: 'An update is staged and waits for its reboot window ([update] reboot_window).',
    advice: 'wait for the window, or run agent reboot',
  },
  'metered-connection': {
    means: 'A default route uses a metered interface ([update] metered); downloads wait for another one.',
    advice: 'connect another network, or repeat with --force',
  },
  'config-unusable': {
    means:
      'The configuration file is invalid. The agent uses the previous one, but its next start, and so any trial, would fail.',
    advice: 'fix the line that agent config check names, then: systemctl reload thing-agent',
  },
  'manual-override': {
    means: 'An operator installed a file or rolled back; this stays until the service offers another version.',
    advice: 'agent --update-now --force installs the offered version',
  },
  ok: {
    means: 'The attempt succeeded. As the state of a gateway: it runs, and no action is needed.',
    advice: 'nothing',
  },
  unhealthy: {
    means: 'The health checks of the new version failed.',
    advice: 'run agent log, which names the failed check; fix the release',
  },
  'service-down': {
    means: 'The service was down during the trial; the version is retried later.',
    advice: 'nothing: the agent retries it later',
  },
  'service-unreached': {
    means:
      'The new version could not reach the service. If the previous version cannot either, it is retried later; otherwise the release failed.',
    advice:
      'run agent log, which names the reason; check the network configuration and the certificates of the release',
  },
  'trial-fell-back': {
    means: 'The bootloader fell back before the new slot was committed.',
    advice: 'see the boot log of the new slot',
  },
  'fell-back': {
    means:
      'The other slot runs again after this version was committed: the bootloader fell back, or an operator chose it.',
    advice: 'see the boot log of the abandoned slot',
  },
  'health-unknown': {
    means: 'The health checks of the new version were interrupted repeatedly.',
    advice: 'find out what restarts the gateway during the health checks: agent log',
  },
  manual: {
    means: 'An operator rolled the version back, or cancelled a rollback to it.',
    advice: 'nothing; to allow a version again that was rolled back: agent unblock VERSION',
  },
  interrupted: {
    means: 'A download or the installation of a file was interrupted.',
    advice: 'a download resumes at the next check; to install a file: agent install FILE',
  },
  superseded: { means: 'The attempt was interrupted, and another version followed.', advice: 'nothing' },
  withdrawn: { means: 'The service no longer offers the version.', advice: 'nothing' },
  cancelled: {
    means: 'An operator cancelled it; it does not start again automatically.',
    advice: 'run agent --update-now to install it anyway',
  },
  overridden: {
    means: 'An operator installed something else.',
    advice: 'nothing; to install the assigned version: agent --update-now --force',
  },
  'board-not-restored': {
    means: 'A rollback could not restore a board.',
    advice: 'agent mcu restore NAME',
  },
} as const satisfies Readonly<
  Record<string, CodeMeaning> & Record<Exclude<DeferralCode, UpdateError['code']>, CodeMeaning>
>;
