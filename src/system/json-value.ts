/**
 * The depth to which a value from outside may be nested. JSON.parse takes any depth, but JSON.stringify fails at some
 * thousands.
 */
export const maxValueDepth = 32;

/** The value of a text in JSON; undefined: it is none. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Whether arrays and objects are nested at most `maxDepth` deep. Does not recurse. */
export function nestedWithin(value: unknown, maxDepth: number = maxValueDepth): boolean {
  let level = [value].filter(isNest);
  for (let depth = 0; depth < maxDepth; depth += 1) {
    level = level.flatMap((nest): unknown[] => Object.values(nest)).filter(isNest);
  }
  return level.length === 0;
}

function isNest(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
