import { commandsOf } from '../arguments/command.ts';
import type { Command } from '../arguments/command.ts';
import { artifactCommands } from './artifact-commands.ts';
import { boardCommands } from './board-commands.ts';
import { configCommands } from './config-commands.ts';
import { inspectCommands } from './inspect/inspect-commands.ts';
import { programCommands } from './program-commands.ts';
import { reportCommand } from './report-command.ts';
import { scanCommand } from './sensors/scan-command.ts';
import { sensorCommands } from './sensors/sensor-commands.ts';
import { setupCommand } from './setup-command.ts';
import { updateCommands } from './update-commands.ts';
import { valueCommands } from './value-commands.ts';

const daemonCommands = commandsOf('Daemon', [
  {
    name: 'run',
    summary: 'run the daemon; started by systemd',
    details: ['SIGHUP reloads the configuration, SIGTERM stops the daemon cleanly. The log goes to stderr.'],
    run: (_typed, context) => context.runDaemon(),
  },
]);

export const commandTable: readonly Command[] = [
  ...updateCommands,
  ...inspectCommands,
  reportCommand,
  ...programCommands,
  ...boardCommands,
  scanCommand, // before `agent sensors NAME`, which would take `scan` for the name of a sensor
  ...sensorCommands,
  ...valueCommands,
  setupCommand,
  ...configCommands,
  ...daemonCommands,
  ...artifactCommands,
];
