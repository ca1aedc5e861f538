import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { describe, expect, test } from 'vitest';

import { protocols } from '../../src/mcu/protocols/protocols.ts';
import { bootloaders } from '../../src/slots/bootloaders/bootloaders.ts';
import { sources } from '../../src/telemetry/sources/sources.ts';
import { subjects } from '../unit-and-integration/mcu/protocols/contract/subjects.ts';
import { contractTests } from './contracts.ts';

const root = join(import.meta.dirname, '../..');

function textOf(path: string | undefined): string {
  return path !== undefined && existsSync(join(root, path)) ? readFileSync(join(root, path), 'utf8') : '';
}

/** The names whose test does not exist, or does not run the contract. */
function lacking(
  kinds: readonly { readonly name: string }[],
  tests: Readonly<Record<string, string>>,
  runs: (name: string, text: string) => boolean,
): readonly string[] {
  return kinds.map(({ name }) => name).filter((name) => !runs(name, textOf(tests[name])));
}

describe('a test runs the contract of each', () => {
  test('bootloader', () => {
    const runs = (_: string, text: string): boolean => /^bootloaderContract\(/m.test(text);
    expect(lacking(bootloaders, contractTests.bootloaders, runs)).toEqual([]);
    expect(lacking([{ name: 'new' }], contractTests.bootloaders, runs)).toEqual(['new']);
  });

  test('protocol', () => {
    const tested = new Set(Object.keys(subjects).map((subject) => subject.split(',')[0]));
    const runs = (name: string, text: string): boolean => text.includes('protocolContract(') && tested.has(name);
    expect(lacking(protocols, contractTests.protocols, runs)).toEqual([]);
    expect(lacking([{ name: 'new' }], { new: contractTests.protocols.esp }, runs)).toEqual(['new']);
  });

  test('source', () => {
    const runs = (name: string, text: string): boolean => new RegExp(`^sourceContract\\(\\s*'${name}'`, 'm').test(text);
    expect(lacking(sources, contractTests.sources, runs)).toEqual([]);
    expect(lacking([{ name: 'new' }], { new: contractTests.sources.file }, runs)).toEqual(['new']);
  });
});
