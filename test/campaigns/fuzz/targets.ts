import type { FuzzTarget } from './target.ts';

/** Everything that comes from outside. A process that plays one target does not load the others. */
const places: Readonly<Record<string, () => Promise<FuzzTarget>>> = {
  'firmware-text': async () => (await import('./targets/firmware/firmware-text.ts')).firmwareText,
  artifact: async () => (await import('./targets/firmware/artifact.ts')).artifactBytes,
  'signed-artifact': async () => (await import('./targets/firmware/artifact.ts')).signedArtifact,
  'trust-list': async () => (await import('./targets/firmware/trust-list.ts')).trustList,
  'compressed-image': async () => (await import('./targets/firmware/compressed-image.ts')).compressedImage,
  delta: async () => (await import('./targets/firmware/delta.ts')).deltaFile,
  configuration: async () => (await import('./targets/configuration.ts')).configuration,
  'command-line': async () => (await import('./targets/command-line.ts')).commandLine,
  'mcu-image': async () => (await import('./targets/firmware/mcu-image.ts')).mcuImage,
  'boot-environment': async () => (await import('./targets/boot-environment.ts')).bootEnvironment,
  'service-replies': async () => (await import('./targets/service-replies.ts')).serviceReplies,
  'broker-replies': async () => (await import('./targets/broker-replies.ts')).brokerReplies,
  'control-socket': async () => (await import('./targets/control-socket.ts')).controlSocket,
  'identity-file': async () => (await import('./targets/state-files.ts')).identityFile,
  'journal-file': async () => (await import('./targets/state-files.ts')).journalFile,
  'security-file': async () => (await import('./targets/state-files.ts')).securityFile,
  'trust-file': async () => (await import('./targets/state-files.ts')).trustFile,
  'floors-file': async () => (await import('./targets/state-files.ts')).floorsFile,
  program: async () => (await import('./targets/program.ts')).program,
  'local-data': async () => (await import('./targets/local-data.ts')).localData,
  'long-text': async () => (await import('./targets/local-data.ts')).longText,
  'kernel-sensors': async () => (await import('./targets/kernel-sensors.ts')).kernelSensors,
  'sensor-broker': async () => (await import('./targets/sensor-broker.ts')).sensorBroker,
  'modbus-line': async () => (await import('./targets/modbus.ts')).modbusLine,
  'modbus-tcp': async () => (await import('./targets/modbus.ts')).modbusTcp,
  daemon: async () => (await import('./targets/daemon.ts')).daemon,
};

export async function findTarget(name: string): Promise<FuzzTarget> {
  const place = places[name];
  if (place === undefined) throw new Error(`there is no target ${name}: ${Object.keys(places).join(', ')}`);
  return place();
}

export async function allTargets(): Promise<readonly FuzzTarget[]> {
  return Promise.all(Object.values(places).map(async (load) => load()));
}
