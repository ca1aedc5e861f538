import type { Socket } from 'node:net';

/**
 * Limits a resource for all clients together. Beyond the limit, the address that uses the most loses one, so that no
 * address blocks others.
 */
export class Shares<T> {
  readonly #bound: number;
  readonly #givesUp: 'oldest' | 'newest';
  /** The items of each address, oldest first. */
  readonly #held = new Map<string, Set<T>>();

  constructor(bound: number, givesUp: 'oldest' | 'newest') {
    this.#bound = bound;
    this.#givesUp = givesUp;
  }

  get count(): number {
    return [...this.#held.values()].reduce((sum, { size }) => sum + size, 0);
  }

  /** Adds an item. Returns the item to discard, which no longer counts, or undefined below the limit. */
  add(address: string, one: T): T | undefined {
    this.#held.set(address, (this.#held.get(address) ?? new Set<T>()).add(one));
    if (this.count <= this.#bound) return undefined;
    const [largest, held] = [...this.#held].reduce((most, other) => (other[1].size > most[1].size ? other : most));
    const given = this.#givesUp === 'oldest' ? [...held][0] : [...held].at(-1);
    if (given !== undefined) this.delete(largest, given);
    return given;
  }

  delete(address: string, one: T): void {
    const held = this.#held.get(address);
    held?.delete(one);
    if (held?.size === 0) this.#held.delete(address);
  }
}

const IPV6_GROUPS = 8;

/** The address of a peer; for IPv6 its first 64 bits, since one household has all addresses with these. */
export function addressOf({ remoteAddress = 'this machine' }: Pick<Socket, 'remoteAddress'>): string {
  const address = remoteAddress.replace(/^::ffff:/, '');
  if (!address.includes(':')) return address;
  const [head = [], tail = []] = address.split('::').map((half) => half.split(':').filter((group) => group !== ''));
  const zeros = Array.from({ length: IPV6_GROUPS - head.length - tail.length }, () => '0');
  const groups = address.includes('::') ? [...head, ...zeros, ...tail] : head;
  return `${groups.slice(0, 4).join(':')}::`;
}
