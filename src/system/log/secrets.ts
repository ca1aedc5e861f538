const secretKey = /pass(word|phrase)|secret|token|api[-_]?key|authorization|credential/i;
/**
 * Matches from the end of a scheme. No two matches can begin in the same stretch, so that the search takes linear time.
 */
const userInfo = /(?<=[a-z0-9+.-]):\/\/[^/?#\s]*@/gi;
const word = /[^\s"]+/g;
const addressStart = /[a-z0-9+.-]:\/\//i;
const LENGTH_OF_START = 'x://'.length;

/** Replaces a secret wherever something is shown. */
export const MASK = '********';

/** True if the key holds a secret. The name of a file with a secret is not a secret. */
export function isSecretKey(key: string): boolean {
  return secretKey.test(key) && !key.endsWith('_file');
}

/** Hides user name, password and query of each address in a text, in linear time. */
export function maskAddresses(text: string): string {
  if (!text.includes('://')) return text;
  return text.replaceAll(userInfo, `://${MASK}@`).replaceAll(word, maskWord);
}

/** Hides everything up to the last "@": a password that is not percent-encoded may contain any other character. */
function maskWord(text: string): string {
  const start = text.search(addressStart);
  if (start === -1) return text;
  const [host, at] = [start + LENGTH_OF_START, text.lastIndexOf('@')];
  const left = at < host ? text : `${text.slice(0, host)}${MASK}${text.slice(at)}`;
  const query = left.indexOf('?', start);
  return query === -1 || query === left.length - 1 ? left : `${left.slice(0, query + 1)}${MASK}`;
}

/** Hides the same in a text that is one address, with spaces and quotes in it. */
export function maskAddress(text: string): string {
  const [host, at] = [text.search(addressStart) + LENGTH_OF_START, text.lastIndexOf('@')];
  const isNamed = host >= LENGTH_OF_START && at >= host;
  return maskAddresses(isNamed ? `${text.slice(0, host)}${MASK}${text.slice(at)}` : text);
}

/**
 * Returns the beginning of a text from outside. Leaves out an address at the cut as a whole, since it could no longer
 * be redacted.
 */
export function cutText(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text;
  const kept = text.slice(0, maxLength);
  const address = kept.lastIndexOf('://');
  return `${address === -1 || /\s/.test(kept.slice(address)) ? kept : kept.slice(0, address)}…`;
}

/** The same value with every secret hidden, however deep. */
export function maskSecrets(value: unknown, key = ''): unknown {
  if (isSecretKey(key) && value !== undefined) return MASK;
  if (typeof value === 'string') return maskAddresses(value);
  if (Array.isArray(value)) return value.map((item) => maskSecrets(item));
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, maskSecrets(item, name)]));
  }
  return value;
}
