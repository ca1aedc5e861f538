/** A value from outside is nested no deeper than this: JSON.parse takes any depth, JSON.stringify ends at some thousands. */
export const maxValueDepth = 32;

/** Whether arrays and objects stand at most `maxDepth` deep in each other. Needs no stack of its own. */
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
