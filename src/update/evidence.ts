import type { AgentError } from '../system/errors.ts';
import { UpdateError } from './errors.ts';
import type { StagedFirmware, Verified } from './ports.ts';
import type { FirmwareRecord } from './state.ts';

/**
 * The only place where evidence is made. What was written and read back must be what a signed manifest promises, or
 * what the operator permitted unsigned.
 */
export function evidenceOf(firmware: StagedFirmware): Verified {
  if (firmware.payloads.length === 0) throw notVerified('the firmware has no payload');
  for (const { promise, written, header } of firmware.payloads) {
    if (promise.kind === 'manifest' && promise.digest !== written.digest) {
      throw notVerified(`${header.fileName}: ${written.digest} was written, the manifest promises ${promise.digest}`);
    }
  }
  return mint(firmware.digest);
}

/** Evidence after a restart: what the slots hold now, read from the medium, is what the journal recorded as verified. */
export function evidenceFromReading(record: FirmwareRecord, digestsByTarget: ReadonlyMap<string, string>): Verified {
  for (const { target, digest } of record.payloads) {
    const found = digestsByTarget.get(target);
    if (found !== digest) throw notVerified(`target ${target} holds ${found ?? 'nothing'} instead of ${digest}`);
  }
  return mint(record.digest);
}

/** Evidence for going back: this slot was committed before, and nothing was staged into it since. */
export function evidenceOfHistory(previouslyInstalled: FirmwareRecord): Verified {
  return mint(previouslyInstalled.digest);
}

function mint(digest: string): Verified {
  const evidence: unknown = { digest };
  assertVerified(evidence);
  return evidence;
}

/** Mints: every check has been made by the callers above. */
function assertVerified(_evidence: unknown): asserts _evidence is Verified {}

function notVerified(message: string): AgentError {
  return new UpdateError('not-verified', message);
}
