import { parsePagePlace } from '../../page/settings.ts';
import type { Finding } from '../cross-check.ts';
import type { ConfigFile } from '../schema/schema.ts';

/** A contradiction: the setting to change, and why. */
type Wrong = readonly [name: keyof ConfigFile['page'], why: string];

/**
 * Refuses an open page: others may reach it only over TLS and with a proof of who they are; loopback is open to every
 * user of this machine.
 */
export function pageContradictions(page: ConfigFile['page']): readonly Finding[] {
  const isProtected = page.password_file !== undefined || page.client_ca_file !== undefined;
  const wrong = [...tlsContradictions(page), ...openness(page, isProtected), ...operation(page, isProtected)];
  return wrong.map(([name, why]) => ({ path: ['page', name], message: `page.${name} ${why}` }));
}

function tlsContradictions(page: ConfigFile['page']): readonly Wrong[] {
  const { certificate_file: certificate, key_file: key, client_ca_file: clientCa } = page;
  const found: Wrong[] = [];
  if (certificate !== undefined && key === undefined) found.push(['certificate_file', 'needs key_file beside it']);
  if (key !== undefined && certificate === undefined) found.push(['key_file', 'needs certificate_file beside it']);
  if (clientCa !== undefined && certificate === undefined)
    found.push(['client_ca_file', 'needs certificate_file beside it']);
  return found;
}

function openness({ listen, certificate_file: certificate }: ConfigFile['page'], isProtected: boolean): Wrong[] {
  const place = listen === undefined ? undefined : parsePagePlace(listen);
  if (place?.kind !== 'tcp' || place.isLoopback || (certificate !== undefined && isProtected)) return [];
  const needed = 'certificate_file and key_file, and password_file or client_ca_file beside it';
  return [['listen', `is not loopback: it needs ${needed}`]];
}

function operation({ listen, operate }: ConfigFile['page'], isProtected: boolean): readonly Wrong[] {
  if (!operate) return [];
  if (!isProtected) return [['operate', '= true needs password_file or client_ca_file beside it']];
  return listen === undefined ? [['operate', '= true has no effect without listen']] : [];
}
