import { ServiceErrors } from './error-table.ts';
import type { ServiceErrorCode } from './error-table.ts';

export type { ServiceErrorCode };

export interface ServiceFailure {
  readonly code: ServiceErrorCode;
  /** What happened, without the operation: "things.example.com:443 refused the connection". */
  readonly why: string;
  /** What was being done: "target version". */
  readonly operation?: string | undefined;
  readonly retryAfterMs?: number | undefined;
  /** Instead of what the code advises. */
  readonly advice?: string | undefined;
  readonly cause?: unknown;
}

/** Anything that goes wrong between this gateway and the provisioning service, in either form. */
export class ServiceError extends ServiceErrors {
  readonly #failure: ServiceFailure;

  constructor(failure: ServiceFailure) {
    const { code, why, operation, ...detail } = failure;
    super(code, operation === undefined ? why : `${operation}: ${why}`, detail);
    this.#failure = failure;
  }

  /** The same failure, named after what was being done when it struck. */
  during(operation: string): ServiceError {
    return new ServiceError({ ...this.#failure, operation });
  }
}
