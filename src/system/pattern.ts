import { createContext, Script } from 'node:vm';

interface Context {
  expression?: RegExp;
  texts?: readonly string[];
  found?: readonly (RegExpExecArray | null)[];
}

// the error comes from the script's own realm, so that `instanceof` does not know it
const LATE = 'ERR_SCRIPT_EXECUTION_TIMEOUT';

/** Made when it is first needed: few files have expressions, and a context takes as much memory as a large module. */
let searcher: { readonly context: Context; readonly search: Script } | undefined;

function makeSearcher(): NonNullable<typeof searcher> {
  const context: Context = {};
  createContext(context);
  return { context, search: new Script('found = texts.map((text) => expression.exec(text))') };
}

/**
 * Searches each text with an operator's regular expression. Returns undefined if it took longer than `timeoutMs` for
 * all texts, as nested repetitions can. Runs the script in a separate context, since only the engine can interrupt an
 * expression.
 */
export function searchWithin(
  expression: RegExp,
  texts: readonly string[],
  timeoutMs: number,
): readonly (RegExpExecArray | null)[] | undefined {
  searcher ??= makeSearcher();
  const { context, search } = searcher;
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
