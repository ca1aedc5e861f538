import type { Config } from '../../../../src/config/config.ts';
import { resolveConfig } from '../../../../src/config/config.ts';
import { parseConfig } from '../../../../src/config/read-config.ts';

/** The minimal configuration, by table. */
const least: readonly (readonly [string, string])[] = [
  ['[service]', 'url = "https://things.example.com"'],
  ['[device]', 'device_type = "raspberrypi4-64"'],
];

/** Each block of settings of a page. */
export function settingsOf(page: string): readonly string[] {
  return [...page.matchAll(/^```toml\n(?<text>[^]*?)^```$/gm)].map(({ groups }) => groups?.['text'] ?? '');
}

/** Returns the configuration with these settings and the minimum around them. Throws if they are invalid. */
export function configOf(settings: string): Config {
  const whole = least.reduce((text, [table, line]) => {
    const [key = ''] = line.split(' ');
    if (!text.includes(table)) return `${text}\n${table}\n${line}\n`;
    return new RegExp(`^${key} =`, 'm').test(text) ? text : text.replace(table, `${table}\n${line}`);
  }, settings);
  return resolveConfig(parseConfig('config.toml', whole));
}
