import type { OperationName } from '../operations.ts';

/** What each operation does, in a sentence for who writes a program. */
export const operationSummaries: Readonly<Record<OperationName, string>> = {
  status: 'What is installed, what goes on, what comes next.',
  check: 'Looks at the service and says what an update would do; installs nothing.',
  doctor: 'Looks at everything that an update needs; changes nothing. A check that fails is a finding, not an error.',
  history: 'The last attempts to install something, across updates.',
  inspect: 'What a local file is, for whom, by whose key, and whether it would be installed; changes nothing.',
  securityLog: 'What concerned security, across updates.',
  activate: 'Introduces the gateway to the service; a new key replaces the old one.',
  reboot: 'Reboots the gateway. A staged slot is booted on its trial by this, too.',
  forget: 'A version that ended badly may be tried again. Returns the names of those that this concerns.',
  hold: 'Nothing is installed until then; without a duration, until resume.',
  resume: 'Ends a hold. Returns whether anything was held.',
  property: 'The value of a property at the service.',
  setProperty: 'Sets a property; it is on disk or at the service when this returns.',
  sendDatapoint: 'Sends a datapoint; it is on disk or at the service when this returns.',
  sendDatapoints:
    'Sends datapoints of several events, all or none; they are on disk or at the service when this returns.',
  spool: 'Sensors, what waits for the service, and how delivery goes.',
  flushSpool: 'Writes what waits in memory to the disk.',
  boards: 'The configured microcontrollers.',
  probeBoard: 'Asks the bootloader of a microcontroller who it is; its application is started again.',
  planBoard: 'How much flashing this file would change; changes nothing.',
  resetBoard: 'Starts the application of a microcontroller again.',
  update: 'Looks at the service now, and installs what it wants.',
  install: 'Installs an artifact or an image in a local file, under the same rules.',
  commit: 'Keeps a trial without waiting for the health gate.',
  rollback: 'Ends a trial, or goes back to what was installed before.',
  cancel: 'Ends a download, or a wait for a reboot.',
  flash: 'Flashes a microcontroller with a local file.',
  restore: 'Puts back what a microcontroller held before it was flashed last.',
};
