import { stat } from 'node:fs/promises';
import { isAbsolute } from 'node:path';

import { describeError, systemErrorCode, undefinedIf } from '../system/errors.ts';
import { describeExposures, findExposures } from '../system/files/protected-file.ts';
import { readToBound } from '../system/files/untrusted-file.ts';
import type { Environment } from '../system/processes/environment.ts';
import { parsedOnce } from '../system/settings/settings.ts';
import { type Finding, findConflicts } from './cross-check.ts';
import { ConfigError, type ConfigProblem } from './errors.ts';
import { lineOf, locateKeys } from './file/key-lines.ts';
import { describeIssues } from './file/problems.ts';
import { parseToml, TomlSyntaxError } from './file/toml.ts';
import { type ConfigFile, configSchema, validTables } from './schema/schema.ts';

export const DEFAULT_CONFIG_PATH = '/etc/thing-agent/config.toml';

const MAX_FILE_BYTES = 1024 * 1024;

/** Reads a configuration file. Throws ConfigError with everything that is wrong. */
export async function readConfig(path: string, environment: Environment) {
  const text = await readConfigText(path);
  return { text, ...applyEnvironment(parseConfig(path, text), environment) };
}

/** Reads the text of a configuration file. `exposuresOf` finds what lets others change it. Throws ConfigError. */
export async function readConfigText(
  path: string,
  exposuresOf = async (file: string) => findExposures(file),
): Promise<string> {
  const fail = (why: string, advice: string): ConfigError =>
    new ConfigError('config-unreadable', path, [{ line: undefined, message: why }], advice);
  try {
    const exposures = await exposuresOf(path);
    if (exposures.length > 0) throw exposed(path, describeExposures(exposures));
    const facts = await stat(path);
    if (!facts.isFile()) throw fail('is not a file', 'name a configuration file');
    if (facts.size > MAX_FILE_BYTES) throw fail(`is larger than ${MAX_FILE_BYTES} bytes`, 'name a configuration file');
    return new TextDecoder('utf-8', { fatal: true }).decode(await readToBound(path, { maxBytes: MAX_FILE_BYTES }));
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    if (systemErrorCode(error) === 'ENOENT') {
      const problem = { line: undefined, message: 'no such configuration file' };
      throw new ConfigError(
        'config-missing',
        path,
        [problem],
        'make it with agent setup, or name another with --config FILE',
      );
    }
    if (error instanceof TypeError) throw fail('is not UTF-8 text', 'save it as UTF-8');
    throw fail(`cannot be read: ${describeError(error)}`, 'check the file and its permissions, or run as root');
  }
}

/** Returns the error of a configuration that other users can change, who could then control programs and updates. */
function exposed(path: string, why: string): ConfigError {
  return new ConfigError('writable-by-others', path, [{ line: undefined, message: `not trusted: ${why}` }]);
}

const COMMENT = /^[ \t]*#.*$/gm;
/** Matches `paths.run` in any form of TOML; no other key has this name. */
const RUN_DIRECTORY = /(?:^|[\s{,.])run[ \t]*=[ \t]*["'](\/[^"'\n]*)["']/;

/** Returns the run directory of a file, even if the file is invalid, so that a running daemon can be reached. */
export async function findRunDirectory(path: string): Promise<string | undefined> {
  const text = await undefinedIf((error) => error instanceof ConfigError, readConfigText(path));
  return RUN_DIRECTORY.exec((text ?? '').replaceAll(COMMENT, ''))?.[1];
}

/** Parses a configuration. Throws ConfigError with everything that is wrong. Pure. */
export function parseConfig(path: string, text: string): ConfigFile {
  const { file, problems } = examineConfig(path, text);
  if (file === undefined || problems.length > 0) throw new ConfigError('config-invalid', path, problems, fixHint(path));
  return file;
}

/**
 * Examines a configuration. Returns the file, which is undefined if a table is invalid; the values as they are written;
 * and the problems, in the order of the file. Pure.
 */
export function examineConfig(path: string, text: string) {
  const input = { service: {}, device: {}, ...parseSyntax(path, text) };
  const result = configSchema.safeParse(input, { ...parsedOnce, error: () => '' });
  const sound = result.success ? result.data : validTables(input);
  const unfit = result.success
    ? []
    : describeIssues(result.error.issues, { schema: configSchema, input, keyLines: locateKeys(text) });
  return {
    file: result.data,
    input,
    problems: sortByLine([...unfit, ...withLines(findConflicts(sound, input), text)]),
  };
}

export function sortByLine(problems: readonly ConfigProblem[]): readonly ConfigProblem[] {
  return problems.toSorted((a, b) => (a.line ?? 0) - (b.line ?? 0));
}

/** Returns the next command to run. */
export function fixHint(path: string): string {
  const which = path === DEFAULT_CONFIG_PATH ? '' : ` --config ${path}`;
  return `correct the file, then try it with: agent${which} config check`;
}

function parseSyntax(path: string, text: string): Record<string, unknown> {
  try {
    return parseToml(text);
  } catch (error) {
    if (!(error instanceof TomlSyntaxError)) throw error;
    const message = `not TOML: ${error.message} (column ${error.column})`;
    throw new ConfigError('config-syntax', path, [{ line: error.line, message }], fixHint(path));
  }
}

/** Findings as problems with lines, in the order of the file. */
export function withLines(findings: readonly Finding[], text: string): readonly ConfigProblem[] {
  if (findings.length === 0) return [];
  const keyLines = locateKeys(text);
  return sortByLine(findings.map(({ path, message }) => ({ line: lineOf(keyLines, path), message })));
}

/**
 * Applies systemd's StateDirectory= and RuntimeDirectory=, which override [paths] (systemd.exec(5), RuntimeDirectory=).
 * Returns the file, and a finding for each setting that the environment overrides.
 */
export function applyEnvironment(file: ConfigFile, environment: Environment) {
  const defaults = configSchema.shape.paths.parse({}, parsedOnce);
  const overridden: Finding[] = [];
  const choose = (key: 'state' | 'run', variable: string): string => {
    const [given = ''] = (environment[variable] ?? '').split(':', 1);
    const written = file.paths[key];
    if (!isAbsolute(given) || given === written) return written;
    if (written !== defaults[key]) {
      overridden.push({
        path: ['paths', key],
        message: `paths.${key} = "${written}" has no effect here, $${variable} = ${given} wins: an agent that you start manually would use another directory than the service`,
      });
    }
    return given;
  };
  const paths = { state: choose('state', 'STATE_DIRECTORY'), run: choose('run', 'RUNTIME_DIRECTORY') };
  return { file: { ...file, paths }, overridden };
}
