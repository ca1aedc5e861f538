import type { AgentOperations } from '../../control/operations.ts';
import type { CliContext } from '../context.ts';
import { renderParagraph } from '../screen/layout.ts';
import { pageFor } from '../screen/page.ts';
import { printable, printableJson } from '../screen/printable.ts';
import { renderSpool } from '../screen/render-spool.ts';
import type { RequestCommand } from './command.ts';
import type { Told } from './told.ts';

const names = ['spool-status', 'spool-flush', 'property-get', 'property-set', 'datapoint-send'] as const;

type SpoolCommand = Extract<RequestCommand, { readonly name: (typeof names)[number] }>;

export function isSpoolCommand(command: RequestCommand): command is SpoolCommand {
  return names.some((name) => name === command.name);
}

/** Values, and where they wait. */
export async function performWithSpool(
  command: SpoolCommand,
  agent: AgentOperations,
  context: CliContext,
): Promise<Told> {
  const { signal } = context;
  const sentence = (text: string): string => renderParagraph(text, pageFor(context.out, context));
  switch (command.name) {
    case 'spool-status': {
      const spool = await agent.spool(signal);
      return { text: renderSpool(spool, pageFor(context.out, context)), value: spool };
    }
    case 'spool-flush': {
      const { onDisk } = await agent.flushSpool(signal);
      const said = onDisk ? 'Everything is on disk.' : 'The disk cannot be written; see: agent spool status.';
      return { text: sentence(said), value: { onDisk } };
    }
    case 'property-get': {
      const value = await agent.property(command.id, signal);
      const text = typeof value === 'string' ? printable(value) : printableJson(value);
      return { text: `${text}\n`, value: { id: command.id, value } };
    }
    case 'property-set':
      await agent.setProperty(command.id, command.value, signal);
      return { text: sentence(`Set: ${command.id}.`), value: { id: command.id, value: command.value } };
    case 'datapoint-send': {
      const { event, value, at } = command;
      await agent.sendDatapoint(event, value, at, signal);
      return { text: sentence(`Sent to ${event}.`), value: { event, value, at } };
    }
  }
}
