import { parseListenAddress } from '../../web/settings.ts';
import type { Finding } from '../cross-check.ts';
import type { ConfigFile } from '../schema/schema.ts';

/** A contradiction: the setting to change, and why. */
type Wrong = readonly [name: keyof ConfigFile['web'], why: string];

/**
 * Refuses an open page: others may reach it only over TLS and with a proof of who they are; loopback is open to every
 * user of this machine.
 */
export function webConflicts(web: ConfigFile['web']): readonly Finding[] {
  const isProtected = web.password_file !== undefined || web.client_ca_file !== undefined;
  const wrong = [...tlsContradictions(web), ...openness(web, isProtected), ...operation(web, isProtected)];
  return wrong.map(([name, why]) => ({ path: ['web', name], message: `web.${name} ${why}` }));
}

function tlsContradictions(web: ConfigFile['web']): readonly Wrong[] {
  const { certificate_file: certificate, key_file: key, client_ca_file: clientCa } = web;
  const found: Wrong[] = [];
  if (certificate !== undefined && key === undefined) found.push(['certificate_file', 'needs key_file as well']);
  if (key !== undefined && certificate === undefined) found.push(['key_file', 'needs certificate_file as well']);
  if (clientCa !== undefined && certificate === undefined)
    found.push(['client_ca_file', 'needs certificate_file as well']);
  return found;
}

function openness({ listen, certificate_file: certificate }: ConfigFile['web'], isProtected: boolean): Wrong[] {
  const place = listen === undefined ? undefined : parseListenAddress(listen);
  if (place?.kind !== 'tcp' || place.isLoopback || (certificate !== undefined && isProtected)) return [];
  const needed = 'certificate_file and key_file, and password_file or client_ca_file as well';
  return [['listen', `is not loopback: it needs ${needed}`]];
}

function operation(
  { listen, allow_operations: isOperable }: ConfigFile['web'],
  isProtected: boolean,
): readonly Wrong[] {
  if (!isOperable) return [];
  if (!isProtected) return [['allow_operations', '= true needs password_file or client_ca_file as well']];
  return listen === undefined ? [['allow_operations', '= true has no effect without listen']] : [];
}
