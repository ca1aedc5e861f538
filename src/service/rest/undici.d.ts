/**
 * Only undici's pool is loaded, since the whole package (fetch, WebSocket, caches, mocks) costs 13 MiB more. The
 * version is pinned, and the contract suite runs on it.
 */
declare module 'undici/lib/dispatcher/pool.js' {
  import { Pool } from 'undici';

  export = Pool;
}
