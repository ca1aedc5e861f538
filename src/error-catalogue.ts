import { CliError } from './cli/errors.ts';
import { ConfigError } from './config/errors.ts';
import { stateCodes } from './control/codes/state-codes.ts';
import { ControlError, ControlRequestError } from './control/control-errors.ts';
import { DaemonError } from './daemon/errors.ts';
import { FirmwareError, FirmwareFormatError, VerificationError } from './firmware/errors.ts';
import { McuError } from './mcu/errors.ts';
import { PackageError } from './package/errors.ts';
import { SerialError } from './serial/errors.ts';
import { ServiceError } from './service/errors.ts';
import { BootloaderError } from './slots/bootloaders/errors.ts';
import { SlotError } from './slots/errors.ts';
import type { CodeMeaning, ErrorMeaning } from './system/define-errors.ts';
import { SystemError } from './system/system-errors.ts';
import { TelemetryError } from './telemetry/errors.ts';
import { UpdateError, updateCodes } from './update/errors.ts';
import { PageError } from './web/page-errors.ts';

/** A group of the error catalogue, as people read it: every code that the agent can say is in one of them. */
export interface CatalogueGroup {
  readonly title: string;
  readonly codes: Readonly<Record<string, ErrorMeaning | CodeMeaning>>;
}

export const errorCatalogue: readonly CatalogueGroup[] = [
  { title: 'Command line', codes: CliError.meanings },
  { title: 'Configuration', codes: ConfigError.meanings },
  { title: 'Service, connection and broker', codes: ServiceError.meanings },
  { title: 'Encoding and compression of firmware', codes: FirmwareFormatError.meanings },
  { title: 'Source and signature of firmware', codes: FirmwareError.meanings },
  { title: 'Refused firmware', codes: VerificationError.meanings },
  { title: 'Refused updates', codes: UpdateError.meanings },
  { title: 'Deferrals and results of updates', codes: updateCodes },
  { title: 'States and problems in agent status', codes: stateCodes },
  { title: 'Slots', codes: SlotError.meanings },
  { title: 'Bootloaders', codes: BootloaderError.meanings },
  { title: 'Boards and their images', codes: McuError.meanings },
  { title: 'Serial ports', codes: SerialError.meanings },
  { title: 'Packages', codes: PackageError.meanings },
  { title: 'Measurements', codes: TelemetryError.meanings },
  { title: 'Daemon', codes: DaemonError.meanings },
  { title: 'Control socket', codes: { ...ControlError.meanings, ...ControlRequestError.meanings } },
  { title: 'Web UI', codes: PageError.meanings },
  { title: 'Operating system', codes: SystemError.meanings },
];

export function errorCodes(): readonly string[] {
  return errorCatalogue.flatMap(({ codes }) => Object.keys(codes));
}

/** Returns the catalogue's entry for one code, or undefined for an unknown one. */
export function explainCode(code: string): ErrorMeaning | CodeMeaning | undefined {
  return errorCatalogue.find(({ codes }) => Object.hasOwn(codes, code))?.codes[code];
}
