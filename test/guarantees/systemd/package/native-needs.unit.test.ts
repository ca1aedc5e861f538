import { describe, expect, test } from 'vitest';

import { dependsOf } from '../../../../systemd/make/native-needs.ts';

const needed = (library: string): string => ` 0x0000000000000001 (NEEDED)             Shared library: [${library}]\n`;
const version = (name: string): string => `  0x0010:   Name: ${name}  Flags: none  Version: 5\n`;

describe('what a package depends on', () => {
  test('is the newest version that any of its programs asks for', () => {
    const headers =
      needed('libc.so.6') + version('GLIBC_2.9') + version('GLIBC_2.28') + needed('libm.so.6') + version('GLIBC_2.3.4');
    expect(dependsOf(headers)).toBe('libc6 (>= 2.28)');
  });

  test('tells what libstdc++ needs by the release of GCC', () => {
    const headers =
      needed('libstdc++.so.6') + version('GLIBCXX_3.4.21') + version('CXXABI_1.3.11') + version('CXXABI_1.3');
    expect(dependsOf(headers)).toBe('libstdc++6 (>= 7.1)');
  });

  test('names libatomic where it is needed', () => {
    expect(dependsOf(needed('libatomic.so.1'))).toBe('libatomic1');
  });

  test('is not guessed for an unknown library or version', () => {
    expect(() => dependsOf(needed('libnew.so.1'))).toThrow('no package of Debian is known for libnew.so.1');
    expect(() => dependsOf(needed('libstdc++.so.6') + version('GLIBCXX_3.4.99'))).toThrow('GLIBCXX_3.4.99');
  });
});
