import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { onTestFinished } from 'vitest';

/** Returns the resource. It is disposed of when the test ends: the last one first, and after each `afterEach`. */
export function untilTestEnds<T extends AsyncDisposable>(resource: T): T {
  onTestFinished(async () => resource[Symbol.asyncDispose]());
  return resource;
}

/** Returns a new directory. It is removed when the test ends. */
export function folderUntilTestEnds(): string {
  const path = mkdtempSync(join(tmpdir(), 'test-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}
