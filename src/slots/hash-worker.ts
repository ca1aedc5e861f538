/**
 * Computes SHA-256 in a separate thread. Every message is answered in order: bytes with '', 'digest' with the hex
 * digest so far.
 */
import { createHash } from 'node:crypto';
import { parentPort } from 'node:worker_threads';

const hash = createHash('sha256');

parentPort?.on('message', (message: Uint8Array | 'digest') => {
  if (message === 'digest') {
    parentPort?.postMessage(hash.copy().digest('hex'), []);
  } else {
    hash.update(message);
    parentPort?.postMessage('', []);
  }
});
