import { defineErrors } from '../system/define-errors.ts';
import type { CodeOf } from '../system/define-errors.ts';
import { sharedErrors } from '../system/shared-errors.ts';

const FormatErrors = defineErrors('FirmwareFormatError', {
  'text-truncated': { remedy: 'retry', exit: 'protocol', means: 'The text of a firmware ends too early.' },
  'text-not-a-string': { remedy: 'give-up', exit: 'protocol', means: 'The answer for a firmware is no JSON string.' },
  'text-bad-escape': {
    remedy: 'give-up',
    exit: 'protocol',
    means: 'The JSON string of a firmware has an escape that does not exist.',
  },
  'text-illegal-character': {
    remedy: 'give-up',
    exit: 'protocol',
    means: 'The text of a firmware has a character that its encoding does not know.',
  },
  'text-trailing': { remedy: 'give-up', exit: 'protocol', means: 'Something follows the text of a firmware.' },
  'text-odd-hex': {
    remedy: 'give-up',
    exit: 'protocol',
    means: 'The hexadecimal text of a firmware has half a byte at its end.',
  },
  'text-bad-padding': {
    remedy: 'give-up',
    exit: 'protocol',
    means: 'The base64 text of a firmware is not filled up as it should be.',
  },
  'text-empty': { remedy: 'give-up', exit: 'protocol', means: 'The text of a firmware is empty.' },
  'compression-truncated': { remedy: 'retry', exit: 'protocol', means: 'Compressed data ends too early.' },
  'compression-corrupt': { remedy: 'give-up', exit: 'protocol', means: 'Compressed data is damaged.' },
  'compression-trailing': { remedy: 'give-up', exit: 'protocol', means: 'Something follows the compressed data.' },
  'compression-memory': {
    remedy: 'give-up',
    exit: 'protocol',
    means: 'Decompression would need more memory than is allowed.',
  },
  'firmware-truncated': { remedy: 'retry', exit: 'protocol', means: 'The firmware ends too early.' },
  'image-empty': sharedErrors['image-empty'],
});

export type FormatErrorCode = CodeOf<typeof FormatErrors>;

/**
 * The text, or a container around the payload, is malformed. `offset` counts bytes of the stream that `where` names. If
 * it ends too early (`*-truncated`), it may have been cut on the way, so that another try may help.
 */
export class FirmwareFormatError extends FormatErrors {
  constructor(code: FormatErrorCode, where: string, offset: number, why: string) {
    super(code, `${where}, byte ${offset}: ${why}`);
  }
}

const VerificationErrors = defineErrors('VerificationError', {
  'artifact-version': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'The artifact is of a format version that is not supported.',
  },
  'artifact-malformed': { remedy: 'give-up', exit: 'refused', means: 'The artifact is not built as its format says.' },
  'artifact-augmented': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'The artifact has unsigned parts, which are not supported.',
  },
  'artifact-scripts': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'The artifact carries state scripts, which this agent does not run.',
  },
  'artifact-corrupt': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'A part of the artifact cannot be decompressed or ends too early.',
  },
  'manifest-mismatch': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'The artifact has other payloads than its manifest lists.',
  },
  'checksum-mismatch': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'A part of the artifact is not what its manifest promises.',
  },
  'digest-mismatch': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'A payload is not what the manifest of its artifact promises.',
  },
  'delta-malformed': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'A delta is not built as its format says, or contradicts the sizes that were signed.',
    advice: 'make it again with agent artifact delta',
  },
  'tar-malformed': { remedy: 'give-up', exit: 'refused', means: 'A tar archive inside the artifact is malformed.' },
  'tar-unsupported': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'A tar archive inside the artifact uses what is not allowed there.',
  },
  'tar-name': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'A name inside the artifact is absolute, climbs out of its folder or is garbled.',
  },
  'tar-duplicate': { remedy: 'give-up', exit: 'refused', means: 'A name stands twice in the artifact.' },
  'artifact-unsigned': { remedy: 'give-up', exit: 'refused', means: 'The artifact is not signed.' },
  'image-unsigned': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'A file without a signature was to be installed, which the operator did not permit.',
  },
  'signature-invalid': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'The artifact’s signature is not by a trusted key, or the artifact was changed.',
  },
  'key-revoked': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'The artifact is signed with a key that was revoked.',
    advice:
      'sign it with a key that is trusted; where none is left, put a new public key into [trust] keys on the gateway',
  },
  'key-expired': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'The artifact is signed with a key whose time is over.',
    advice: 'sign it with a newer key',
  },
  'key-not-yet-valid': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'The artifact is signed with a key whose time has not come yet.',
    advice: 'sign it with the key that is in use now, and see that the clock of the gateway is right',
  },
  'release-revoked': sharedErrors['release-revoked'],
  'trust-list-malformed': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'A list of keys and revocations cannot be understood.',
    advice: 'write it with agent artifact trust',
  },
  'trust-list-old': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'A list of keys and revocations is older than the one that was taken last.',
    advice: 'give the next list a higher number',
  },
  'trust-no-keys': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'No trusted key is configured, so nothing can be verified.',
  },
  'device-type-mismatch': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'The artifact is for other devices.',
    advice: 'take the release for this device; what it is stands in [device] device_type',
  },
  'depends-unmet': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'The artifact needs something else to be installed before.',
  },
  'payload-type': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'It is not known where the payload of the artifact goes.',
  },
});

export type VerificationErrorCode = CodeOf<typeof VerificationErrors>;

/** A trusted key did not sign this firmware, or it is not meant for this gateway. It must not boot. */
export class VerificationError extends VerificationErrors {
  constructor(code: VerificationErrorCode, message: string, advice?: string, exit?: 'usage') {
    super(code, message, { advice, exit });
  }
}

/** The source of a firmware, or something that is needed to read it, failed. */
export class FirmwareError extends defineErrors('FirmwareError', {
  'firmware-changed': sharedErrors['firmware-changed'],
  'checkpoint-stale': sharedErrors['checkpoint-stale'],
  'delta-base': sharedErrors['delta-base'],
  'file-changed': {
    remedy: 'retry',
    exit: 'tryAgain',
    means: 'A file is being written to while it is read.',
    advice: 'wait until it is complete',
  },
  'file-truncated': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'A file is not whole: it ends before what it holds does.',
    advice: 'copy it again, and compare its size with that of the original',
  },
  'file-unreadable': {
    remedy: 'give-up',
    exit: 'usage',
    means: 'A file cannot be read.',
    advice:
      'check the path: a regular file that root may read; with a helper, the user thing-agent: below /srv or /media, not in /root, /home or /tmp',
  },
  'xz-missing': {
    remedy: 'give-up',
    exit: 'failed',
    means: 'The firmware is compressed with xz, and the program xz cannot be started.',
    advice: 'install xz-utils, or compress the firmware with zstd',
  },
  'delta-unwritten': {
    remedy: 'give-up',
    exit: 'failed',
    means: 'A delta could not be made: its artifact cannot be written, or mender-artifact failed.',
    advice: 'check the folder of --output and its room, and that --key is a private key, as openssl writes it',
  },
  'decompression-stalled': { remedy: 'retry', exit: 'failed', means: 'Decompression made no progress.' },
  'trust-list-exists': {
    remedy: 'give-up',
    exit: 'usage',
    means: 'A new list of keys and revocations would replace a file, and what that file revokes would be forgotten.',
    advice: 'continue it (--from), or name a file that does not exist',
  },
  'trust-list-damaged': {
    remedy: 'give-up',
    exit: 'refused',
    means:
      'It is not known any more which keys and releases were revoked: the file trust.json in the state directory is damaged.',
    advice: 'release a list of keys and revocations with a higher number; it replaces the file',
  },
  'trust-key-unreadable': {
    remedy: 'give-up',
    exit: 'configuration',
    means: 'The file of a trusted key cannot be read.',
    advice: 'check [trust] keys in the configuration and the permissions of the file',
  },
  'trust-key-refused': {
    remedy: 'give-up',
    exit: 'configuration',
    means: 'A trusted key is of a kind that is not accepted.',
    advice: 'use a public key of ECDSA P-256, Ed25519 or RSA from 3072 bits on, in PEM form',
  },
}) {}

/** The checkpoint of a cut transfer is of no use: the transfer starts over. */
export function staleCheckpoint(why: string): FirmwareError {
  return new FirmwareError('checkpoint-stale', `the checkpoint of an interrupted transfer is not usable: ${why}`);
}
