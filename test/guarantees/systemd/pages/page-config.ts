import type { Config } from '../../../../src/config/config.ts';
import { parseConfig } from '../../../../src/config/read-config.ts';
import { resolveConfig } from '../../../../src/config/resolve.ts';

/** What a configuration needs at least, by table. */
const least: readonly (readonly [string, string])[] = [
  ['[service]', 'url = "https://things.example.com"'],
  ['[device]', 'device_type = "raspberrypi4-64"'],
];

/** Each block of settings of a page. */
export function settingsOf(page: string): readonly string[] {
  return [...page.matchAll(/^```toml\n(?<text>[^]*?)^```$/gm)].map(({ groups }) => groups?.['text'] ?? '');
}

/** The configuration that these settings make, with what it needs beside them. Throws where they are none. */
export function configOf(settings: string): Config {
  const whole = least.reduce((text, [table, line]) => {
    const [key = ''] = line.split(' ');
    if (!text.includes(table)) return `${text}\n${table}\n${line}\n`;
    return new RegExp(`^${key} =`, 'm').test(text) ? text : text.replace(table, `${table}\n${line}`);
  }, settings);
  return resolveConfig(parseConfig('config.toml', whole));
}
