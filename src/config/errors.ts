import { defineErrors, permanent } from '../system/define-errors.ts';
import type { CodeOf } from '../system/define-errors.ts';
import { sharedErrors } from '../system/shared-errors.ts';

/** One thing that is wrong with the configuration. Guarantee `secrecy`: its message names the key, and never a secret. */
export interface ConfigProblem {
  /** Counted from 1. Undefined if the problem has no line in the file. */
  readonly line: number | undefined;
  readonly message: string;
}

const ConfigErrors = defineErrors('ConfigError', {
  'config-missing': permanent.configuration(
    'There is no configuration file.',
    'make it with agent setup, or name another with --config FILE',
  ),
  'config-unreadable': permanent.configuration(
    'The configuration file cannot be read.',
    'check the path and the permissions: agent config check --config FILE',
  ),
  'config-unwritable': permanent.configuration(
    'The configuration cannot be written, as its file system is read-only.',
    'write it below /run (agent --config /run/config.toml setup), and build it into the image as /etc/thing-agent/config.toml',
  ),
  'config-syntax': permanent.configuration(
    'The configuration file is not valid TOML.',
    'correct the line that the message names, then: agent config check',
  ),
  'config-invalid': permanent.configuration(
    'The configuration has a key or a value that is not accepted.',
    'correct the lines that the message names, then: agent config check; all settings: docs/configuration.md',
  ),
  'writable-by-others': sharedErrors['writable-by-others'],
});

export type ConfigErrorCode = CodeOf<typeof ConfigErrors>;

/** Further problems are only counted. */
export const MAX_PROBLEMS = 20;

/** The configuration cannot be used. */
export class ConfigError extends ConfigErrors {
  readonly path: string;
  /** In the order of the file, at most MAX_PROBLEMS. */
  readonly problems: readonly ConfigProblem[];
  /** The number of further problems. */
  readonly omitted: number;

  constructor(code: ConfigErrorCode, path: string, problems: readonly ConfigProblem[], advice?: string) {
    const [first] = problems;
    const rest = problems.length > 1 ? ` (and ${problems.length - 1} more)` : '';
    const message = first === undefined ? `${path} cannot be used` : `${describeProblem(path, first)}${rest}`;
    super(code, message, { advice });
    this.path = path;
    this.problems = problems.slice(0, MAX_PROBLEMS);
    this.omitted = problems.length - this.problems.length;
  }

  /** One line for each problem. */
  get descriptions(): readonly string[] {
    const lines = this.problems.map((problem) => describeProblem(this.path, problem));
    return this.omitted > 0 ? [...lines, `and ${this.omitted} more`] : lines;
  }
}

/** A problem in one line: `config.toml:12: update.follow: …`. */
function describeProblem(path: string, problem: ConfigProblem): string {
  return `${path}${problem.line === undefined ? '' : `:${problem.line}`}: ${problem.message}`;
}
