import type { Config } from '../../config/config.ts';
import { firmwareOpener } from '../../firmware/open-firmware.ts';
import type { OpenFirmware } from '../../update/ports/incoming.ts';
import { describeAppliedList } from '../security/applied-list.ts';
import { recordKeys } from '../security/record-events.ts';
import type { SecurityRecorder } from '../security/security-log.ts';
import type { Trust } from './trust.ts';

/** The part of a configuration that decides which artifacts are accepted. */
interface StagingConfig {
  readonly update: Pick<Config['update'], 'encoding'>;
  readonly device: { readonly deviceType: Config['device']['deviceType'] | undefined };
  readonly trust: Pick<Config['trust'], 'allowUnsigned'>;
}

/**
 * Stages firmware with keys that are read again each time: they may be replaced, and a bad key only stops updates. When
 * a trust list took effect, its changes are recorded.
 */
export function stagingWithKeys(
  { update, device, trust: { allowUnsigned } }: StagingConfig,
  trust: Trust,
  security: SecurityRecorder,
): OpenFirmware {
  return async (request, signal) => {
    const keyring = await trust.keyring(signal);
    const takeList = async (bytes: Uint8Array, artifact: string, signedBy: string | undefined): Promise<void> => {
      const taken = await trust.takeList(bytes, artifact, keyring.keys);
      const told = describeAppliedList({ ...taken, signedBy, known: keyring.keys });
      await security.recordOnce('trust-list-applied', artifact, told);
      await recordKeys(security, trust, signal);
    };
    const trusted = { ...keyring, allowUnsigned, takeList };
    const settings = { encoding: update.encoding, deviceType: device.deviceType, trust: trusted };
    return firmwareOpener(settings)(request, signal);
  };
}
