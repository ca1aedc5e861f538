import type { Command } from '../arguments/command.ts';
import { artifactCommands } from './artifact-commands.ts';
import { boardCommands } from './board-commands.ts';
import { configCommands } from './config-commands.ts';
import { inspectCommands } from './inspect-commands.ts';
import { programCommands } from './program-commands.ts';
import { reportCommand } from './report-command.ts';
import { scanCommand } from './sensors/scan-command.ts';
import { sensorCommands } from './sensors/sensor-commands.ts';
import { setupCommand } from './setup-command.ts';
import { updateCommands } from './update-commands.ts';
import { valueCommands } from './value-commands.ts';

const daemonCommands: readonly Command[] = [
  {
    name: 'run',
    operands: [],
    options: [],
    group: 'Daemon',
    summary: 'be the daemon; systemd starts this',
    details: ['SIGHUP reads the configuration again, SIGTERM stops in order. The log goes to stderr.'],
    run: (_typed, context) => context.runDaemon(),
  },
];

export const commandTable: readonly Command[] = [
  ...updateCommands,
  ...inspectCommands,
  reportCommand,
  ...programCommands,
  ...boardCommands,
  scanCommand, // stands before `agent sensors NAME`, which would take `scan` for the name of a sensor
  ...sensorCommands,
  ...valueCommands,
  setupCommand,
  ...configCommands,
  ...daemonCommands,
  ...artifactCommands,
];
