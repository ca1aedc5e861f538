import { defineErrors, permanent, transient } from '../system/define-errors.ts';
import { describeError, mapError } from '../system/errors.ts';
import { readProtectedFile } from '../system/files/protected-file.ts';

/** The page cannot be served. */
export class PageError extends defineErrors('PageError', {
  'page-unavailable': transient.failed(
    'The web UI cannot listen on the configured address.',
    'to find the program that uses the port: ss -ltnp; the agent cannot use ports below 1024',
  ),
  'web-files-invalid': permanent.configuration(
    'A file that [web] names cannot be used.',
    'agent config check names the problem',
  ),
  'bundle-failed': transient.failed(
    'The web UI could not create a support bundle.',
    'run it on the gateway: agent support-bundle FILE',
  ),
}) {}

/** A request that is refused with this HTTP status. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Reads a file that `[web]` names. Throws PageError. */
export async function readPageFile(path: string, maxBytes: number): Promise<Buffer> {
  return mapError(
    readProtectedFile(path, { maxBytes }),
    (error) => new PageError('web-files-invalid', `cannot read ${path}: ${describeError(error)}`, { cause: error }),
  );
}
