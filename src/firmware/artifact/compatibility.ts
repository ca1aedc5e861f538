import { VerificationError } from '../errors.ts';
import type { ArtifactDescription, Depends, Provides } from './header.ts';
import { quoted } from './refusal.ts';

/** The reason why an artifact cannot be installed on this gateway. */
interface Incompatibility {
  readonly kind: 'device-type' | 'depends';
  readonly why: string;
}

/** Compares the device type and all `artifact_depends` with the gateway. */
export function findIncompatibility(
  artifact: ArtifactDescription,
  deviceType: string,
  installed: Provides,
): Incompatibility | undefined {
  for (const depends of [artifact.depends, ...artifact.payloads.map((payload) => payload.depends)]) {
    const obstacle = unmet(depends, deviceType, installed);
    if (obstacle !== undefined) return obstacle;
  }
  return undefined;
}

/**
 * Returns the provides of the gateway after the artifact was installed: the previous ones, minus those that the
 * payloads clear, plus the ones in artifact and payloads. Source: Mender Artifact format version 3,
 * "clears_artifact_provides".
 */
export function providesAfter(artifact: ArtifactDescription, installed: Provides): Provides {
  const patterns = artifact.payloads.flatMap((payload) => payload.clears);
  const kept = Object.entries(installed).filter(([key]) => !patterns.some((pattern) => matches(key, pattern)));
  const added = [artifact.provides, ...artifact.payloads.map((payload) => payload.provides)].flatMap(Object.entries);
  return Object.fromEntries([...kept, ...added]);
}

/**
 * Guarantee `floors`: returns the number that the artifact provides as `security_version`. If several parts provide one,
 * the lowest counts, since every part is installed. Earlier installations do not count.
 */
export function securityVersionOf({ provides, payloads }: ArtifactDescription): number | undefined {
  const texts = [provides, ...payloads.map((payload) => payload.provides)].flatMap((part) => {
    const text = Object.hasOwn(part, SECURITY_VERSION) ? part[SECURITY_VERSION] : undefined;
    return text ?? [];
  });
  const numbers = texts.map((text) => {
    if (/^\d{1,15}$/.test(text)) return Number(text);
    throw new VerificationError(
      'artifact-malformed',
      `artifact: security_version is ${quoted(text)}, not a whole number`,
    );
  });
  return numbers.length === 0 ? undefined : Math.min(...numbers);
}

const SECURITY_VERSION = 'security_version';

/** Matches a text with a pattern in which `*` stands for any characters or none, and everything else for itself. */
export function matches(text: string, pattern: string): boolean {
  const [start = '', ...pieces] = pattern.split('*');
  const end = pieces.pop();
  if (end === undefined) return text === pattern;
  if (!text.startsWith(start)) return false;
  let at = start.length;
  for (const piece of pieces) {
    const found = text.indexOf(piece, at);
    if (found === -1) return false;
    at = found + piece.length;
  }
  return text.length - at >= end.length && text.endsWith(end);
}

function unmet(depends: Depends, deviceType: string, installed: Provides): Incompatibility | undefined {
  for (const [key, wanted] of Object.entries(depends)) {
    const choice = wanted.map(quoted).join(' or ');
    if (key === 'device_type') {
      if (wanted.includes(deviceType)) continue;
      return { kind: 'device-type', why: `it is for ${choice}, this gateway is ${quoted(deviceType)}` };
    }
    const provided = Object.hasOwn(installed, key) ? installed[key] : undefined;
    if (provided !== undefined && wanted.includes(provided)) continue;
    const actual = provided === undefined ? 'nothing of that name' : quoted(provided);
    return { kind: 'depends', why: `it needs ${quoted(key)} to be ${choice}, installed is ${actual}` };
  }
  return undefined;
}
