import { defineErrors, permanent, transient } from '../system/define-errors.ts';
import type { CodeOf } from '../system/define-errors.ts';
import { sharedErrors } from '../system/shared-errors.ts';

const UPLOAD_AGAIN = 'upload the release to the service again';
const IF_AGAIN = `nothing: the agent retries; if it fails again, ${UPLOAD_AGAIN}`;
const BUILD_AGAIN = 'copy or download the file again; if it fails again, build the release again';

const FormatErrors = defineErrors('FirmwareFormatError', {
  'text-truncated': transient.protocol('The encoded firmware is truncated.', IF_AGAIN),
  'text-not-a-string': permanent.protocol('The response with the encoded firmware is not a JSON string.', UPLOAD_AGAIN),
  'text-bad-escape': permanent.protocol(
    'The JSON string with the encoded firmware has an escape that does not exist.',
    UPLOAD_AGAIN,
  ),
  'text-illegal-character': permanent.protocol(
    'The encoded firmware has a character that is not part of its encoding.',
    UPLOAD_AGAIN,
  ),
  'text-trailing': permanent.protocol('The encoded firmware is followed by other data.', UPLOAD_AGAIN),
  'text-odd-hex': permanent.protocol(
    'The hexadecimal encoding of the firmware has an odd number of digits.',
    UPLOAD_AGAIN,
  ),
  'text-bad-padding': permanent.protocol('The base64 encoding of the firmware is not padded correctly.', UPLOAD_AGAIN),
  'text-empty': permanent.protocol('The encoded firmware is empty.', UPLOAD_AGAIN),
  'compression-truncated': transient.protocol('Compressed data is truncated.', IF_AGAIN),
  'compression-corrupt': permanent.protocol('Compressed data is damaged.', UPLOAD_AGAIN),
  'compression-trailing': permanent.protocol('The compressed data is followed by other data.', UPLOAD_AGAIN),
  'compression-memory': permanent.protocol(
    'Decompression would need more memory than is allowed.',
    'compress the release with a smaller window',
  ),
  'firmware-truncated': transient.protocol('The firmware image is truncated.', IF_AGAIN),
  'image-empty': sharedErrors['image-empty'],
});

export type FormatErrorCode = CodeOf<typeof FormatErrors>;

/**
 * The encoded text, or a container around the payload, is malformed. `offset` counts bytes of the stream that `where`
 * names. If it is truncated (`*-truncated`), the transfer may have been interrupted, so that another attempt may help.
 */
export class FirmwareFormatError extends FormatErrors {
  constructor(code: FormatErrorCode, where: string, offset: number, why: string) {
    super(code, `${where}, byte ${offset}: ${why}`);
  }
}

const VerificationErrors = defineErrors('VerificationError', {
  'artifact-version': permanent.refused(
    'The artifact is of a format version that is not supported.',
    'write the artifact with format version 3 (mender-artifact)',
  ),
  'artifact-malformed': permanent.refused('The artifact does not follow its format.', BUILD_AGAIN),
  'artifact-augmented': permanent.refused(
    'The artifact has unsigned parts, which are not supported.',
    'write the artifact without an augmented header',
  ),
  'artifact-scripts': permanent.refused(
    'The artifact carries state scripts, which this agent does not run.',
    'write the artifact without state scripts; use [hooks] instead',
  ),
  'artifact-corrupt': permanent.refused('A part of the artifact cannot be decompressed or is truncated.', BUILD_AGAIN),
  'manifest-mismatch': permanent.refused('The artifact has other payloads than its manifest lists.', BUILD_AGAIN),
  'checksum-mismatch': permanent.refused('A part of the artifact does not match its manifest.', BUILD_AGAIN),
  'digest-mismatch': permanent.refused('A payload does not match the manifest of its artifact.', BUILD_AGAIN),
  'delta-malformed': permanent.refused(
    'A delta does not follow its format, or contradicts the signed sizes.',
    'make it again with agent artifact delta',
  ),
  'tar-malformed': permanent.refused('A tar archive inside the artifact is malformed.', BUILD_AGAIN),
  'tar-unsupported': permanent.refused('A tar archive inside the artifact uses an unsupported feature.', BUILD_AGAIN),
  'tar-name': permanent.refused(
    'A name inside the artifact is absolute, leaves its directory or is malformed.',
    BUILD_AGAIN,
  ),
  'tar-duplicate': permanent.refused('The artifact contains a name twice.', BUILD_AGAIN),
  'artifact-unsigned': permanent.refused(
    'The artifact is not signed.',
    'sign the release: mender-artifact sign; or allow unsigned releases in [trust] allow_unsigned',
  ),
  'image-unsigned': permanent.refused(
    'The file has no signature, and the operator did not permit unsigned files.',
    'flash a signed image, or allow unsigned files in [trust] allow_unsigned',
  ),
  'signature-invalid': permanent.refused(
    'The artifact’s signature is not by a trusted key, or the artifact was changed.',
    'sign the release with a key in [trust] keys; if you did, download it again',
  ),
  'key-revoked': permanent.refused(
    'The artifact is signed with a key that was revoked.',
    'sign it with a trusted key; if none is left, add a new public key to [trust] keys on the gateway',
  ),
  'key-expired': permanent.refused('The artifact is signed with an expired key.', 'sign it with a newer key'),
  'key-not-yet-valid': permanent.refused(
    'The artifact is signed with a key that is not yet valid.',
    'sign it with a currently valid key, and check the clock of the gateway',
  ),
  'release-revoked': sharedErrors['release-revoked'],
  'trust-list-malformed': permanent.refused('A trust list is malformed.', 'write it with agent artifact trust'),
  'trust-list-old': permanent.refused(
    'A trust list is older than the last accepted one.',
    'give the next list a higher number',
  ),
  'trust-no-keys': permanent.refused(
    'No trusted key is configured, so nothing can be verified.',
    'add the public key of your releases to [trust] keys',
  ),
  'device-type-mismatch': permanent.refused(
    'The artifact is for other devices.',
    'use the release for this device; its type is in [device] device_type',
  ),
  'depends-unmet': permanent.refused(
    'The artifact depends on another installed version.',
    'install the release that it depends on first',
  ),
  'payload-type': permanent.refused(
    'The target for the payload of the artifact is unknown.',
    'write the artifact with a payload of a target in [targets]; agent info FILE shows its payloads',
  ),
});

export type VerificationErrorCode = CodeOf<typeof VerificationErrors>;

/** A trusted key did not sign this firmware, or it is not meant for this gateway. It must not boot. */
export class VerificationError extends VerificationErrors {
  constructor(code: VerificationErrorCode, message: string, advice?: string, exit?: 'usage') {
    super(code, message, { advice, exit });
  }
}

/** The source of a firmware image, or something that is needed to read it, failed. */
export class FirmwareError extends defineErrors('FirmwareError', {
  'firmware-changed': sharedErrors['firmware-changed'],
  'checkpoint-stale': sharedErrors['checkpoint-stale'],
  'delta-base-mismatch': sharedErrors['delta-base-mismatch'],
  'file-changed': sharedErrors['file-changed'],
  'file-truncated': permanent.refused(
    'A file is truncated: it ends before its content does.',
    'copy it again, and compare its size with the original',
  ),
  'file-unreadable': sharedErrors['file-unreadable'],
  'xz-missing': permanent.failed(
    'The firmware is compressed with xz, and the program xz cannot be started.',
    'install xz-utils, or compress the firmware with zstd',
  ),
  'delta-unwritten': permanent.failed(
    'A delta could not be made: its artifact cannot be written, or mender-artifact failed.',
    'check the directory of --output and its free space, and that --key is a private key in the format of openssl',
  ),
  'decompression-stalled': transient.failed(
    'Decompression made no progress.',
    'report this with agent support-bundle; release the firmware with another compression',
  ),
  'trust-list-exists': permanent.usage(
    'A new trust list would replace a file, and the revocations of that file would be lost.',
    'continue it (--from), or name a file that does not exist',
  ),
  'trust-list-damaged': permanent.refused(
    'The revoked keys and releases are unknown: the file trust.json in the state directory is damaged or missing.',
    'release a trust list with a higher number; it replaces the file',
  ),
  'trust-key-unreadable': permanent.configuration(
    'The file of a trusted key cannot be read.',
    'check [trust] keys in the configuration and the permissions of the file',
  ),
  'trust-key-refused': permanent.configuration(
    'A trusted key is of a kind that is not accepted.',
    'use a public key of ECDSA P-256, Ed25519 or RSA from 3072 bits on, in PEM form',
  ),
}) {}

/** The checkpoint of a cut transfer is of no use: the transfer starts over. */
export function staleCheckpoint(why: string): FirmwareError {
  return new FirmwareError('checkpoint-stale', `the checkpoint of an interrupted transfer is not usable: ${why}`);
}
