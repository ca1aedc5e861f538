/** The meaning of each security event. The ids are stable, since programs match them. */
export const securityEventMeanings = {
  'signature-rejected':
    'an update was rejected: no valid signature by a trusted key, or the content differs from the signed one',
  'key-rejected': 'an update was rejected: its key is revoked, expired or not yet valid',
  'release-rejected': 'a release was rejected, because a trust list revoked it',
  'downgrade-rejected': 'a release was rejected, because it is older than a previous one',
  'name-rejected': 'a signed release was rejected, because it was offered under another name',
  'trust-list-rejected': 'a trust list was rejected',
  'trust-list-applied': 'a trust list took effect',
  'force-used': 'an operator used --force; the request may still have been rejected or have failed',
  'keys-changed': 'the trusted keys have changed',
  'configuration-changed': 'the configuration has changed',
  activated: 'the gateway was activated at the service',
  reactivated: 'the gateway was activated again',
  'serial-number-shared': 'another device uses the serial number of this gateway',
  'access-denied': 'a user requested an operation from the daemon without permission',
  'login-rejected': 'a wrong password was entered in the web UI',
  'minimum-version-lost': 'the journal and its copy were damaged: the minimum security version was lost',
  'log-damaged': 'the security log could not be read and was restarted',
} as const;

export type SecurityEventId = keyof typeof securityEventMeanings;
