import type { Operation } from '../faults.ts';

export interface Route {
  readonly operation: Operation;
  /** The variable segments of the path, decoded, in their order. */
  readonly ids: readonly string[];
}

const segment = '([^/]+)';

/** interface.md, "Endpoints". */
const table: readonly { readonly method: string; readonly path: RegExp; readonly operation: Operation }[] = [
  { method: 'PUT', path: exactly('things', 'activate', `${segment}.json`), operation: 'activate' },
  { method: 'GET', path: exactly('things', segment, 'versions', 'current.json'), operation: 'currentVersion' },
  { method: 'GET', path: exactly('things', segment, 'versions', 'target.json'), operation: 'targetVersion' },
  { method: 'GET', path: exactly('things', segment, 'versions', segment, 'firmware.json'), operation: 'firmware' },
  { method: 'GET', path: exactly('things', segment, 'versions', segment, 'updates.json'), operation: 'updates' },
  { method: 'PUT', path: exactly('things', segment, 'versions', segment, 'switch.json'), operation: 'switchTo' },
  { method: 'GET', path: exactly('things', segment, 'properties', segment, 'value.json'), operation: 'property' },
  { method: 'PUT', path: exactly('things', segment, 'properties', segment, 'value.json'), operation: 'setProperty' },
  {
    method: 'POST',
    path: exactly('things', segment, 'events', segment, 'datapoints.json'),
    operation: 'postDatapoints',
  },
];

function exactly(...segments: readonly string[]): RegExp {
  return new RegExp(`^/v1/${segments.join('/').replaceAll('.json', '\\.json')}$`);
}

/** Returns the call of a path, or a status for an unknown path. */
export function findRoute(method: string, path: string): Route | { readonly status: number } {
  const matching = table.filter((entry) => entry.path.test(path));
  const entry = matching.find((one) => one.method === method);
  if (entry === undefined) return { status: matching.length === 0 ? 404 : 405 };
  const encoded = entry.path.exec(path)?.slice(1) ?? [];
  try {
    return { operation: entry.operation, ids: encoded.map((id) => decodeURIComponent(id)) };
  } catch (error) {
    if (error instanceof URIError) return { status: 400 };
    throw error;
  }
}
