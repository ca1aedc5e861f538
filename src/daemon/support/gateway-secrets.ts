import { join } from 'node:path';

import { parseToml, TomlSyntaxError } from '../../config/file/toml.ts';
import { undefinedIfThrows, isSyntaxError, undefinedIf } from '../../system/errors.ts';
import { isUnreadable, readUntrustedFile } from '../../system/files/untrusted-file.ts';
import { isSecretKey } from '../../system/log/secrets.ts';
import type { Environment } from '../../system/processes/environment.ts';

const MAX_BYTES = 64 * 1024;
const MAX_FILES = 100;
const LEAST_OF_QUERY = 4;
const TIMEOUT_MS = 2_000;

/** The places where this gateway keeps secrets. */
export interface SecretPlaces {
  readonly stateDirectory: string;
  /** The text of the configuration file, if it is readable. */
  readonly configText: string | undefined;
  readonly environment: Environment;
}

/**
 * Guarantee `secrecy`: returns the secrets that this program can find: the API key, the content of files that the
 * configuration names, and secrets within the configuration and the environment. It cannot reveal anything that it
 * cannot read.
 */
export async function gatewaySecrets({
  stateDirectory,
  configText,
  environment,
}: SecretPlaces): Promise<readonly string[]> {
  const found = configText === undefined ? nothing : secretsOfConfig(configText);
  const secrets = [...found.secrets, ...secretsOfEnvironment(environment)];
  for (const name of ['identity.json', 'identity.json.damaged', 'identity.json.other-serial-number']) {
    const text = await textOf(join(stateDirectory, name));
    for (const [, key = ''] of (text ?? '').matchAll(/"apiKey"[\s:]{0,9}"([^"\n]{1,4096})"/g)) secrets.push(key);
  }
  for (const file of found.files.slice(0, MAX_FILES)) secrets.push(...secretsOfFile((await textOf(file)) ?? ''));
  return secrets;
}

interface FoundInConfig {
  readonly secrets: readonly string[];
  readonly files: readonly string[];
}

const nothing: FoundInConfig = { secrets: [], files: [] };

/** Returns the secrets of a configuration, even of an invalid one. Pure. */
export function secretsOfConfig(text: string): FoundInConfig {
  const secrets = secretsOfAddresses(text);
  const files: string[] = [];
  const note = (key: string, value: string): void => {
    if (isSecretKey(key)) secrets.push(value);
    else if (isSecretFile(key)) files.push(value);
  };
  for (const [key, value] of settingsOf(text)) {
    secrets.push(...[value].flat().flatMap(secretsOfAddress));
    if (typeof value === 'string') note(key, value);
    else if (/command/.test(key)) secrets.push(...secretsOfCommand(value));
  }
  return { secrets, files };
}

/** The settings as keys with their texts and lists of texts, however deep. */
function settingsOf(text: string): readonly (readonly [string, string | readonly string[]])[] {
  try {
    return [...walk('', parseToml(text))];
  } catch (error) {
    if (!(error instanceof TomlSyntaxError)) throw error;
    const lines = text.matchAll(/(?<![\w-])([\w-]{1,64})\s{0,9}=\s{0,9}(?:"([^"\n]*)|'([^'\n]*))/g);
    return [...lines].map(([, key = '', double, single]) => [key, double ?? single ?? ''] as const);
  }
}

function* walk(key: string, value: unknown): Generator<readonly [string, string | readonly string[]]> {
  if (typeof value === 'string') yield [key, value];
  if (Array.isArray(value)) {
    const words = value.filter((one) => typeof one === 'string');
    if (words.length > 0) yield [key, words];
    for (const one of value) if (typeof one === 'object') yield* walk(key, one);
  } else if (typeof value === 'object' && value !== null) {
    for (const [name, one] of Object.entries(value)) yield* walk(name, one);
  }
}

function isSecretFile(key: string): boolean {
  return /^(?:.*_)?(?:password|key|token|secret|credentials?)_file$/.test(key);
}

/** The words that follow `--password` and the like. */
function secretsOfCommand(words: string | readonly string[]): readonly string[] {
  if (typeof words === 'string') return [];
  return words.flatMap((word, index) => {
    const [, name = '', value = ''] =
      /^-{0,2}([\w-]{1,64})\s{0,4}[=:]\s{0,4}(?:(?:Bearer|Basic) )?(.+)$/i.exec(word) ?? [];
    if (isSecretKey(name)) return [value];
    const before = words[index - 1] ?? '';
    return before.startsWith('-') && !before.includes('=') && isSecretKey(before) ? [word] : [];
  });
}

function secretsOfEnvironment(environment: Environment): readonly string[] {
  const named = Object.entries(environment).flatMap(([name, value = '']) => (isSecretKey(name) ? [value] : []));
  return [...named, ...Object.values(environment).flatMap((value = '') => secretsOfAddresses(value))];
}

function secretsOfAddresses(text: string): string[] {
  return text.split(/[\s"']+/).flatMap(secretsOfAddress);
}

/**
 * The secrets in a text that is an address: user name with password, the password alone, and the values of the query,
 * each as written and decoded.
 */
function secretsOfAddress(text: string): readonly string[] {
  const start = text.indexOf('://');
  if (start === -1) return [];
  const passwords = [...text.slice(start + '://'.length).matchAll(/^([^:]*):(.+)@/gs)];
  const queries = text.slice(start).split('?').slice(1);
  return [
    ...passwords.flatMap(([, user = '', password = '']) =>
      [password, decoded(password)].flatMap((one) => [one, `${user}:${one}`, `${decoded(user)}:${one}`]),
    ),
    ...queries.flatMap((query) => query.split(/[&;#]/).map((pair) => pair.replace(/^[^=]*=/, ''))).filter(isLong),
  ].flatMap((one) => [one, decoded(one)]);
}

/** True for a long value. A short value of a query is not a secret: `?version=1` must not hide every other 1. */
function isLong({ length }: string): boolean {
  return length >= LEAST_OF_QUERY;
}

function decoded(text: string): string {
  return undefinedIfThrows(isSyntaxError, () => decodeURIComponent(text)) ?? text;
}

/**
 * The secrets of a file: each line of a private key in PEM form, nothing of public keys and certificates, and for other
 * files the text and its first line, which is how passwords are written.
 */
function secretsOfFile(text: string): readonly string[] {
  if (!text.includes('-----BEGIN')) return [text.trim(), ...text.split('\n', 1)];
  if (!text.includes('PRIVATE KEY')) return [];
  return text.split('\n').filter((line) => /^[A-Za-z0-9+/=]{20,}\s*$/.test(line));
}

async function textOf(path: string): Promise<string | undefined> {
  const options = { maxBytes: MAX_BYTES, longer: 'cut', timeoutMs: TIMEOUT_MS } as const;
  return (await undefinedIf(isUnreadable, readUntrustedFile(path, options)))?.toString('utf8');
}
