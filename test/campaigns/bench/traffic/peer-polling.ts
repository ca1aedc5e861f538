/**
 * Requests of peers that find no update, written from their documentation and counted, not captured. What differs from
 * server to server (date, request id, names) has a usual length.
 *
 * - Mender: API "Device Deployments", version 2, `POST …/deployments/next`, answered with 204; token of "Device
 *   Authentication" (RS256). Every 30 min: `UpdatePollIntervalSeconds`, default 1800.
 * - hawkBit: DDI API, `GET /{tenant}/controller/v1/{controllerId}` with a target token. Every 5 min:
 *   `hawkbit.controller.pollingTime`, default 00:05:00.
 */
export interface PeerPolling {
  readonly name: string;
  readonly sent: number;
  readonly received: number;
  readonly checksPerDay: number;
}

const provides = JSON.stringify({ device_provides: { artifact_name: 'release-1', device_type: 'demo-gateway' } });

/** Header, claims (jti, sub, exp, iss, iat, tenant, device, plan) and a signature of 256 bytes, in base64url. */
const TOKEN = 'x'.repeat(36 + 1 + 330 + 1 + 342);

const mender = {
  request: [
    'POST /api/devices/v2/deployments/device/deployments/next HTTP/1.1',
    'Host: hosted.mender.io',
    'User-Agent: mender/5.0.1',
    `Authorization: Bearer ${TOKEN}`,
    'Content-Type: application/json',
    `Content-Length: ${provides.length}`,
    'Accept-Encoding: gzip',
    '',
    provides,
  ],
  response: [
    'HTTP/1.1 204 No Content',
    'date: Fri, 27 Nov 2026 00:00:00 GMT',
    'x-men-requestid: 01234567-89ab-cdef-0123-456789abcdef',
    'cache-control: no-store',
    'strict-transport-security: max-age=63072000',
    'x-content-type-options: nosniff',
    'x-frame-options: DENY',
    '',
    '',
  ],
};

const links = JSON.stringify({
  config: { polling: { sleep: '00:05:00' } },
  _links: { configData: { href: 'https://hawkbit.example.com/DEFAULT/controller/v1/gateway-1/configData' } },
});

const hawkbit = {
  request: [
    'GET /DEFAULT/controller/v1/gateway-1 HTTP/1.1',
    'Host: hawkbit.example.com',
    `Authorization: TargetToken ${'0'.repeat(32)}`,
    'Accept: application/hal+json',
    'User-Agent: libcurl-agent/1.0',
    '',
    '',
  ],
  response: [
    'HTTP/1.1 200 OK',
    'Date: Fri, 27 Nov 2026 00:00:00 GMT',
    'Content-Type: application/hal+json;charset=UTF-8',
    `Content-Length: ${links.length}`,
    'Cache-Control: no-cache, no-store, max-age=0, must-revalidate',
    'Pragma: no-cache',
    'Expires: 0',
    'X-Content-Type-Options: nosniff',
    'X-Frame-Options: DENY',
    '',
    links,
  ],
};

const size = (lines: readonly string[]): number => Buffer.byteLength(lines.join('\r\n'));

export const peerPolling: readonly PeerPolling[] = [
  { name: 'Mender', sent: size(mender.request), received: size(mender.response), checksPerDay: 48 },
  { name: 'hawkBit', sent: size(hawkbit.request), received: size(hawkbit.response), checksPerDay: 288 },
];
