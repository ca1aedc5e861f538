/** What each security event means. The ids are stable: programs look for them, and they are never reworded. */
export const securityEventMeanings = {
  'signature-refused': 'a firmware was refused: no valid signature by a trusted key, or other content than was signed',
  'key-refused': 'a firmware was refused: its key was revoked, or is not of this time',
  'release-refused': 'a release was refused, because a signed list revoked it',
  'downgrade-refused': 'a release was refused, because it is older than one before',
  'name-refused': 'a signed release was refused, because it was offered under another name',
  'trust-list-refused': 'a list of keys and revocations was refused',
  'trust-list-applied': 'a signed list of keys and revocations took effect',
  'force-used': 'a person ordered something in spite of a rule; it may have been refused or have failed all the same',
  'keys-changed': 'other keys are trusted than before',
  'configuration-changed': 'another configuration is in effect than before',
  activated: 'the gateway was activated at the service',
  reactivated: 'the gateway was activated again',
  'serial-number-shared': 'another device activates with the serial number of this gateway',
  'access-denied': 'somebody asked the daemon for what that user may not',
  'login-refused': 'somebody gave a wrong password to the page',
  'minimum-version-lost':
    'journal and copy were damaged: below which release none may be installed is not known any more',
  'log-damaged': 'this log could not be read, and begins anew',
} as const;

export type SecurityEventId = keyof typeof securityEventMeanings;
