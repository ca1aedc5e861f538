import { AgentError } from '../system/errors.ts';

/**
 * The text or a container around the payload is malformed. `offset` counts bytes of the stream that `where` names. What
 * ends too early (`*-truncated`) may have been cut on the way: trying again may cure it.
 */
export class FirmwareFormatError extends AgentError {
  override readonly name = 'FirmwareFormatError';

  constructor(code: string, where: string, offset: number, why: string) {
    const remedy = code.endsWith('-truncated') ? 'retry' : 'give-up';
    super({ code, message: `${where}, byte ${offset}: ${why}`, remedy, exit: 'protocol' });
  }
}

/** The firmware is not what a trusted key vouched for, or not meant for this gateway. Nothing of it may boot. */
export class VerificationError extends AgentError {
  override readonly name = 'VerificationError';

  constructor(code: string, message: string, advice?: string) {
    super({ code, message, remedy: 'give-up', exit: 'refused', advice });
  }
}
