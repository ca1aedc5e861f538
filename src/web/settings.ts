import { BlockList, isIP } from 'node:net';

import * as z from 'zod';

import { settingsOf } from '../system/settings/settings.ts';
import { absolutePath, flag, text } from '../system/settings/values.ts';

/** The address where the page is served. */
export type ListenAddress =
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number; readonly isLoopback: boolean }
  | { readonly kind: 'socket'; readonly path: string };

const addressPattern = /^(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)):([1-9]\d{0,4})$/;
/** The daemon may not open the ports below. */
const MIN_PORT = 1_024;
const MAX_PORT = 65_535;

const listenText = 'an address and a port such as "127.0.0.1:8077" or "[::1]:8077", or the path of a Unix socket';
const portText = `an address whose port is a number from ${MIN_PORT} to ${MAX_PORT}`;
const hostText = 'a name such as "gateway.example.com", without a port';

function isLoopback(host: string, family: 'ipv4' | 'ipv6'): boolean {
  const loopback = new BlockList();
  loopback.addSubnet('127.0.0.0', 8, 'ipv4');
  loopback.addAddress('::1', 'ipv6');
  return loopback.check(host, family);
}

/** Parses an address. Returns undefined if it is invalid. */
export function parseListenAddress(value: string): ListenAddress | undefined {
  if (/^\/[^\0]*[^/\0]$/.test(value)) return { kind: 'socket', path: value };
  const [, six, four, digits] = addressPattern.exec(value) ?? [];
  const [host = '', port] = [six ?? four, Number(digits)];
  if (isIP(host) !== (six === undefined ? 4 : 6) || port < MIN_PORT || port > MAX_PORT) return undefined;
  return { kind: 'tcp', host, port, isLoopback: isLoopback(host, six === undefined ? 'ipv4' : 'ipv6') };
}

/** True if it would be an address with another port. */
function hasWrongPort(value: string): boolean {
  return parseListenAddress(value.replace(/:\d+$/, `:${MIN_PORT}`)) !== undefined;
}

export const MAX_PASSWORD_FILE_BYTES = 4_096;
const FEWEST_CHARACTERS = 12;

/** The password in a file: its first line. */
export function passwordIn(text: string): string {
  return text.split(/\r?\n/, 1)[0] ?? '';
}

/** Returns the reason for rejecting a password, worded to follow the name of its file, or undefined. */
export function passwordFault({ length }: string): string | undefined {
  return length < FEWEST_CHARACTERS ? `has fewer than ${FEWEST_CHARACTERS} characters` : undefined;
}

export const pageSchema = z.strictObject({
  listen: text(listenText, 107)
    .refine((value) => parseListenAddress(value) !== undefined, {
      error: ({ input }) => (typeof input === 'string' && hasWrongPort(input) ? portText : listenText),
    })
    .optional()
    .meta({
      description:
        'Address and port, or path of a Unix socket such as "/run/thing-agent/web.sock". Without it, there is no web UI',
      examples: ['127.0.0.1:8077'],
    }),
  password_file: absolutePath('/etc/thing-agent/web-password', 'page password')
    .optional()
    .describe(
      'File with the password for the web UI, which has at least 12 characters. Only its owner may read the file',
    ),
  certificate_file: absolutePath('/etc/thing-agent/web.pem', 'certificates')
    .optional()
    .describe('PEM file of the certificate for https, with key_file. Without it, listen must be a loopback address'),
  key_file: absolutePath('/etc/thing-agent/web.key', 'secret')
    .optional()
    .describe('PEM file of the private key of certificate_file'),
  client_ca_file: absolutePath('/etc/thing-agent/web-clients.pem', 'authorities')
    .optional()
    .describe('PEM file of certificate authorities. Only browsers with a certificate from one of them can connect'),
  hosts: z
    .array(text(hostText, 253).regex(/^[A-Za-z0-9.-]+$/, hostText))
    .max(32)
    .default([])
    .meta({
      description: 'Host names in addition to the address. A request to any other name is rejected',
      examples: [['gateway.example.com']],
    }),
  allow_operations: flag()
    .default(false)
    .describe(
      'true: the web UI can also install, pause and roll back, like members of thing-operators. Needs ' +
        'password_file or client_ca_file',
    ),
});

export type PageSettings = ReturnType<typeof pageSettings>;

/** `[web]`; without a `place` there is no page. */
export function pageSettings(written: z.output<typeof pageSchema>) {
  const { listen, ...others } = settingsOf(pageSchema, written);
  const place = listen === undefined ? undefined : parseListenAddress(listen);
  const hosts: readonly string[] = others.hosts.map((name) => name.toLowerCase());
  return { ...others, place, hosts };
}
