import { buildArtifact } from '../../unit-and-integration/firmware/artifact/build-artifact.ts';
import { makeKeyPair } from '../../unit-and-integration/firmware/artifact/keys.ts';

/** The one that a file gateway trusts. */
export const releaseKey = makeKeyPair('ecdsa-p256', 'release.pem');

/** An image for a file gateway: what it begins with decides whether its application works. */
export function image(text: string, sizeBytes = 300_000): Buffer {
  return Buffer.alloc(sizeBytes, `${text}\n`, 'latin1');
}

/** A signed artifact of an image. */
export async function artifact(name: string, content: Buffer, key = releaseKey.privateKey): Promise<Buffer> {
  return buildArtifact({ name, devices: ['demo-gateway'], files: [{ name: 'rootfs.ext4', content }], key });
}
