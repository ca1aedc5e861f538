import { countOption, runTool, WrongUse } from '../../tool.ts';
import { playSlowLine } from './slow-line.ts';

const help = `npm run slow-line -- [--mib N] [--kib-per-second N] [--up S] [--down S] [--off M] [--compression C]

A signed artifact with an image of N MiB (1024) comes over a line of N KiB per second (50) that works for S seconds (60)
and then not for S (15), to a gateway that is switched off every M minutes (60). The real rooms on a real disk, in
simulated time. Compressions: none (default), gzip, zstd, xz.`;

const options = {
  mib: { type: 'string', default: '1024' },
  'kib-per-second': { type: 'string', default: '50' },
  up: { type: 'string', default: '60' },
  down: { type: 'string', default: '15' },
  off: { type: 'string', default: '60' },
  compression: { type: 'string', default: 'none' },
} as const;

const compressions = ['none', 'gzip', 'zstd', 'xz'] as const;
const MIB = 1024 * 1024;

await runTool(help, options, async (values) => {
  const compression = compressions.find((each) => each === values.compression);
  if (compression === undefined) throw new WrongUse(`--compression is one of ${compressions.join(', ')}`);
  const report = await playSlowLine({
    imageBytes: countOption('mib', values.mib, 1) * MIB,
    compression,
    bytesPerSecond: countOption('kib-per-second', values['kib-per-second'], 1) * 1024,
    upMs: countOption('up', values.up, 1) * 1000,
    downMs: countOption('down', values.down, 0) * 1000,
    offEveryMs: countOption('off', values.off, 1) * 60_000,
  });
  for (const [name, value] of Object.entries<string | number>({ ...report })) console.log(line(name, value));
  return report.digest === report.wantedDigest ? 0 : 1;
});

function line(name: string, value: string | number): string {
  const shown = name.endsWith('Bytes') ? `${(Number(value) / MIB).toFixed(1)} MiB` : String(value);
  return `${name.padEnd(20)} ${shown}`;
}
