const secretKey = /pass(word|phrase)|secret|token|api[-_]?key|authorization|credential/i;
const userInfo = /([a-z][a-z0-9+.-]*:\/\/)[^/?#\s]*@/gi;
const query = /([a-z][a-z0-9+.-]*:\/\/[^?\s"]*\?)[^\s"]+/gi;

/** Stands for a secret wherever something is shown. */
export const MASK = '********';

/** A file's name under such a key is no secret. */
export function isSecretKey(key: string): boolean {
  return secretKey.test(key) && !key.endsWith('_file');
}

/** Hides user name, password and query of the addresses in a text. */
export function maskAddresses(text: string): string {
  return text.replaceAll(userInfo, `$1${MASK}@`).replaceAll(query, `$1${MASK}`);
}

/** The same value with every secret in it hidden, wherever it is. */
export function maskSecrets(value: unknown, key = ''): unknown {
  if (isSecretKey(key) && value !== undefined) return MASK;
  if (typeof value === 'string') return maskAddresses(value);
  if (Array.isArray(value)) return value.map((item) => maskSecrets(item));
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, maskSecrets(item, name)]));
  }
  return value;
}
