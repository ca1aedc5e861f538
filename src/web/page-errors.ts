import { defineErrors, permanent, transient } from '../system/define-errors.ts';

/** The page cannot be served. */
export class PageError extends defineErrors('PageError', {
  'page-unavailable': transient.failed(
    'The web UI cannot listen on the configured address.',
    'see who has the port: ss -ltnp; ports below 1024 are not for the agent',
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
