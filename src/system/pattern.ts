import { createContext, Script } from 'node:vm';

interface Context {
  expression?: RegExp;
  texts?: readonly string[];
  found?: readonly (RegExpExecArray | null)[];
}

const context: Context = {};
createContext(context);
// of an error of the script's own world: no instance of ours
const LATE = 'ERR_SCRIPT_EXECUTION_TIMEOUT';
const search = new Script('found = texts.map((text) => expression.exec(text))');

/**
 * What an operator's regular expression finds in each text. Undefined: it needs longer than it may for them, as an expression
 * does that nests repetitions; only the engine itself can be made to stop within one.
 */
export function searchWithin(
  expression: RegExp,
  texts: readonly string[],
  timeoutMs: number,
): readonly (RegExpExecArray | null)[] | undefined {
  Object.assign(context, { expression, texts });
  try {
    search.runInContext(context, { timeout: timeoutMs });
    return context.found;
  } catch (error) {
    const isLate = typeof error === 'object' && error !== null && 'code' in error && error.code === LATE;
    if (isLate) return undefined;
    throw error;
  }
}
