import { ServiceErrors } from './error-table.ts';
import type { ServiceErrorCode } from './error-table.ts';

export type { ServiceErrorCode };

export interface ServiceFailure {
  readonly code: ServiceErrorCode;
  /** The cause, without the operation: "things.example.com:443 refused the connection". */
  readonly why: string;
  /** The name of the operation: "target version". */
  readonly operation?: string | undefined;
  readonly retryAfterMs?: number | undefined;
  /** Replaces the advice of the code. */
  readonly advice?: string | undefined;
  readonly cause?: unknown;
  /** True if the service was reached and reported this. */
  readonly isAnswer?: boolean | undefined;
}

/** A failure between this gateway and the provisioning service, in either form. */
export class ServiceError extends ServiceErrors {
  readonly #failure: ServiceFailure;

  constructor(failure: ServiceFailure) {
    const { code, why, operation, isAnswer: _, ...detail } = failure;
    super(code, operation === undefined ? why : `${operation}: ${why}`, detail);
    this.#failure = failure;
  }

  /** True if the service was reached and reported this itself. */
  get isAnswer(): boolean {
    return this.#failure.isAnswer === true;
  }

  /** The same failure with the name of the operation during which it happened. */
  during(operation: string): ServiceError {
    return new ServiceError({ ...this.#failure, operation });
  }
}

/** Codes of failures that only an operator or another device can end: no call waits for that. */
export const neverSoon: ReadonlySet<string> = new Set<ServiceErrorCode>([
  'key-rejected',
  'activation-refused',
  'activation-timeout',
  'serial-number-shared',
]);

export function isKeyRejected(error: unknown): boolean {
  return error instanceof ServiceError && error.code === 'key-rejected';
}
