import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Debian's packages of the libraries that programs for glibc name (the same on amd64 and arm64). */
const packageOf: Readonly<Record<string, string>> = {
  'ld-linux-x86-64.so.2': 'libc6',
  'ld-linux-aarch64.so.1': 'libc6',
  'libc.so.6': 'libc6',
  'libdl.so.2': 'libc6',
  'libm.so.6': 'libc6',
  'libpthread.so.0': 'libc6',
  'librt.so.1': 'libc6',
  'libgcc_s.so.1': 'libgcc-s1',
  'libstdc++.so.6': 'libstdc++6',
  'libatomic.so.1': 'libatomic1',
};

/** GCC releases with which libstdc++ got a version of its symbols (gcc.gnu.org, "ABI Policy and Guidelines"). */
const gccOf: Readonly<Record<string, string>> = {
  'GLIBCXX_3.4.20': '4.9',
  'GLIBCXX_3.4.21': '5.1',
  'GLIBCXX_3.4.22': '6.1',
  'GLIBCXX_3.4.23': '7.1',
  'GLIBCXX_3.4.25': '8.1',
  'GLIBCXX_3.4.26': '9.1',
  'GLIBCXX_3.4.28': '9.3',
  'GLIBCXX_3.4.29': '11.1',
  'GLIBCXX_3.4.30': '12.1',
  'CXXABI_1.3.9': '5.1',
  'CXXABI_1.3.10': '6.1',
  'CXXABI_1.3.11': '7.1',
  'CXXABI_1.3.12': '9.1',
  'CXXABI_1.3.13': '11.1',
};

/** `Depends` of Debian for these programs and libraries, whatever their architecture, as their ELF headers say. */
export async function nativeDepends(files: readonly string[]): Promise<string> {
  const headers = await Promise.all(
    files.map(async (file) => run('readelf', ['--wide', '--dynamic', '--version-info', file], { timeout: 60_000 })),
  );
  return dependsOf(headers.map(({ stdout }) => stdout).join('\n'));
}

/** The same from the output of readelf. Throws if a library is unknown. */
export function dependsOf(headers: string): string {
  const libraries = [...headers.matchAll(/\(NEEDED\).*\[(.+)\]/g)].map(([, name = '']) => name);
  const least = { libc6: newest(glibcVersions(headers)), 'libstdc++6': newest(libstdcxxVersions(headers)) };
  const packages = new Set(libraries.map(packageNamed));
  return [...packages]
    .sort()
    .map((name) => {
      const version = name === 'libc6' || name === 'libstdc++6' ? least[name] : undefined;
      return version === undefined ? name : `${name} (>= ${version})`;
    })
    .join(', ');
}

function packageNamed(library: string): string {
  const name = packageOf[library];
  if (name === undefined)
    throw new Error(`no package of Debian is known for ${library} (systemd/make/native-needs.ts)`);
  return name;
}

function glibcVersions(headers: string): readonly string[] {
  return [...headers.matchAll(/Name: GLIBC_([\d.]+)/g)].map(([, version = '']) => version);
}

/** Older ones are in every Debian that has systemd. */
function libstdcxxVersions(headers: string): readonly string[] {
  const names = [...headers.matchAll(/Name: ((?:GLIBCXX_3\.4|CXXABI_1\.3)\.(\d+))/g)];
  const recent = names.filter(([, name = '', last]) => Number(last) >= (name.startsWith('G') ? 20 : 9));
  return recent.map(([, name = '']) => {
    const gcc = gccOf[name];
    if (gcc === undefined) throw new Error(`no release of GCC is known for ${name} (systemd/make/native-needs.ts)`);
    return gcc;
  });
}

function newest(versions: readonly string[]): string | undefined {
  const byNumber = new Intl.Collator('en', { numeric: true });
  return [...versions].sort(byNumber.compare).at(-1);
}
