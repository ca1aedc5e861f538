import { ServiceError } from '../../../src/service/errors.ts';
import { errorOfStatus } from '../../../src/service/rest/statuses.ts';

export interface Answer {
  readonly latencyMs: number;
  /** The error, if the call fails. */
  readonly error?: ServiceError;
}

/** How the service answers a request that reaches it then. */
export type Service = (nowMs: number) => Answer;

interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

const well: Answer = { latencyMs: 80 };
const refused: Answer = {
  latencyMs: 50,
  error: new ServiceError({ code: 'connection-refused', why: 'the service refused the connection' }),
};

export const wellService = (): Service => () => well;

export function slowService({ fromMs, toMs }: Span, latencyMs: number): Service {
  return (nowMs) => (nowMs >= fromMs && nowMs < toMs ? { latencyMs } : well);
}

export function downService({ fromMs, toMs }: Span): Service {
  return (nowMs) => (nowMs >= fromMs && nowMs < toMs ? refused : well);
}

/** Returns a service that is down behind a proxy that names the end (`Retry-After` with one date for all). */
export function maintainedService({ fromMs, toMs }: Span): Service {
  return (nowMs) => (nowMs >= fromMs && nowMs < toMs ? refusal(503, (toMs - nowMs) / 1000) : well);
}

/** Returns a service that accepts this number per second and sends the others to the next full half minute. */
export function limitedService(perSecond: number): Service {
  let second = 0;
  let taken = 0;
  return (nowMs) => {
    const current = Math.floor(nowMs / 1000);
    if (current !== second) taken = 0;
    second = current;
    taken += 1;
    return taken <= perSecond ? well : refusal(429, 30 - (current % 30));
  };
}

function refusal(status: number, retryAfterSeconds: number): Answer {
  const headers = { 'retry-after': String(Math.ceil(retryAfterSeconds)) };
  const error = errorOfStatus(
    { operation: 'target version', status, place: 'things.example.com/v1', headers, excerpt: undefined, key: 'sent' },
    0,
  );
  return { latencyMs: 80, error };
}
