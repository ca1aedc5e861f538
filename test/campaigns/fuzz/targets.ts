import type { FuzzTarget } from './target.ts';
import { bootEnvironment } from './targets/boot-environment.ts';
import { brokerReplies } from './targets/broker-replies.ts';
import { commandLine } from './targets/command-line.ts';
import { configuration } from './targets/configuration.ts';
import { controlSocket } from './targets/control-socket.ts';
import { daemon } from './targets/daemon.ts';
import { artifactBytes, signedArtifact } from './targets/firmware/artifact.ts';
import { compressedImage } from './targets/firmware/compressed-image.ts';
import { deltaFile } from './targets/firmware/delta.ts';
import { firmwareText } from './targets/firmware/firmware-text.ts';
import { mcuImage } from './targets/firmware/mcu-image.ts';
import { trustList } from './targets/firmware/trust-list.ts';
import { localData, longText } from './targets/local-data.ts';
import { program } from './targets/program.ts';
import { sensorBroker } from './targets/sensor-broker.ts';
import { serviceReplies } from './targets/service-replies.ts';
import { floorsFile, identityFile, journalFile, securityFile, trustFile } from './targets/state-files.ts';

/** Everything that comes from outside. */
export const targets: readonly FuzzTarget[] = [
  firmwareText,
  artifactBytes,
  signedArtifact,
  trustList,
  compressedImage,
  deltaFile,
  configuration,
  commandLine,
  mcuImage,
  bootEnvironment,
  serviceReplies,
  brokerReplies,
  controlSocket,
  identityFile,
  journalFile,
  securityFile,
  trustFile,
  floorsFile,
  program,
  localData,
  longText,
  sensorBroker,
  daemon,
];

export function findTarget(name: string): FuzzTarget {
  const found = targets.find((target) => target.name === name);
  if (found === undefined) throw new Error(`there is no target ${name}: ${targets.map((one) => one.name).join(', ')}`);
  return found;
}
