import { join } from 'node:path';

import { settingsTables } from './config-page.ts';
import type { Setting, SettingsTable } from './config-page.ts';

/** The reference of all settings: `npm run config` writes it, a test compares. */
export const configReferencePath = join(import.meta.dirname, '../../docs/configuration.md');

const intro = `# Configuration reference

Every setting of \`/etc/thing-agent/config.toml\` (TOML 1.0), generated from the schema that the agent uses. \`agent config check\` finds mistakes with
their lines, \`agent config show\` prints the settings in effect. After a change: \`systemctl reload thing-agent\`.

Durations are texts such as \`"90s"\` or \`"1h30m"\`, sizes such as \`"64MiB"\`. Files are named by absolute paths. \`NAME\` stands for a name that you choose.
`;

/** Returns docs/configuration.md. */
export function configReference(): string {
  return [intro, ...settingsTables().map(tableSection)].join('\n');
}

function tableSection({ title, about, settings }: SettingsTable): string {
  const rows = settings.map((setting) => `| ${cellsOf(setting).map(escaped).join(' | ')} |\n`);
  const table =
    rows.length === 0 ? '' : `\n| setting | type | default | meaning |\n|---|---|---|---|\n${rows.join('')}`;
  return `## \`${title}\`\n${about === undefined ? '' : `\n${about}\n`}${table}`;
}

function cellsOf({ key, kind, need, standard, example, meaning }: Setting): readonly string[] {
  const shown = need === '' ? code(standard) : need;
  const sample = example === '' ? '' : `Example: ${code(example)}.`;
  return [code(key), kind, shown, [meaning === undefined ? '' : `${meaning}.`, sample].join(' ').trim()];
}

function code(text: string): string {
  return text === '' ? '' : `\`${text}\``;
}

function escaped(cell: string): string {
  return cell.replaceAll('|', String.raw`\|`);
}
