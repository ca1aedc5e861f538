import type { Fault } from '../faults.ts';
import type { World } from '../world.ts';
import type { Answer, Request } from './answer.ts';

const PAGE =
  '<!DOCTYPE html>\n<html><head><title>Welcome to Hotel WiFi</title></head><body>Please log in</body></html>\n';

/** The answer of a fault that keeps the call from being done at all. */
export function insteadOf(fault: Fault): Answer | undefined {
  if (fault.kind === 'status') {
    const { status, retryAfter, body = '' } = fault;
    return bytesAnswer(status, retryAfter === undefined ? {} : { 'retry-after': String(retryAfter) }, body);
  }
  if (fault.kind === 'body') return bytesAnswer(fault.status ?? 200, fault.headers ?? {}, fault.text);
  if (fault.kind === 'redirect') return bytesAnswer(fault.status ?? 302, { location: fault.location }, '');
  if (fault.kind === 'page') return bytesAnswer(200, fault.labeled ? { 'content-type': 'text/html' } : {}, PAGE);
  if (fault.kind === 'huge') return { status: 200, headers: {}, body: { kind: 'filler', bytes: fault.bytes } };
  return undefined;
}

/** Applies a fault to the world, or to the request, before the call takes effect. */
export function before(fault: Fault, request: Request, world: World): Request {
  const [first = '', second = ''] = request.route.ids;
  if (fault.kind === 'drop-key') world.activate(world.thing(first).serialNumber);
  if (fault.kind === 'change-firmware') world.changeFirmware(second, fault.at, fault.keepEtag);
  if (fault.kind !== 'ignore-range') return request;
  return { ...request, headers: { ...request.headers, range: undefined } };
}

/** Applies a fault to the head of the right reply. */
export function after(fault: Fault, answer: Answer): Answer {
  if (fault.kind === 'wrong-length') return withHeader(answer, 'content-length', String(lengthOf(answer) + fault.by));
  if (fault.kind !== 'wrong-range') return answer;
  const range = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(answer.headers['content-range'] ?? '');
  if (range === null) return answer;
  const [first = 0, last = 0, total = 0] = range.slice(1).map(Number);
  const wrong = fault.text ?? `bytes ${first + fault.firstBy}-${last}/${total + fault.totalBy}`;
  return withHeader(answer, 'content-range', wrong);
}

function lengthOf({ headers, body }: Answer): number {
  return Number(headers['content-length'] ?? (body.kind === 'bytes' ? body.bytes.byteLength : 0));
}

function withHeader(answer: Answer, name: string, value: string): Answer {
  return { ...answer, headers: { ...answer.headers, [name]: value } };
}

function bytesAnswer(status: number, headers: Readonly<Record<string, string>>, text: string): Answer {
  return { status, headers, body: { kind: 'bytes', bytes: Buffer.from(text) } };
}
