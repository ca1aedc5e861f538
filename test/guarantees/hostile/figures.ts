import { formatLine } from '../../../src/system/log/pino-log.ts';
import { maskAddresses } from '../../../src/system/log/secrets.ts';
import { parseReading } from '../../../src/telemetry/sources/parse-reading.ts';
import { compareVersions } from '../../../src/update/version-order.ts';
import { attacks } from './attacks.ts';
import { HostileGateway } from './hostile-gateway.ts';

/** The tables of test/campaigns/results.md, section "Attacks": `node test/guarantees/hostile/figures.ts [ATTACK]`. */
const lengths = [1_024, 16_384, 131_072, 1_048_576];
const worst = ['a', 'a1-', 'a://b', '0', ' '];
const works: Readonly<Record<string, (text: string) => unknown>> = {
  'mask addresses': maskAddresses,
  'a line for the journal': (text) =>
    formatLine('journal', { at: new Date(0), level: 'info', message: maskAddresses(text), fields: {} }),
  'a reading': (text) => parseReading(`${text}\u0001`),
  'the name of a version': (text) =>
    compareVersions({ id: undefined, name: text }, { id: undefined, name: `${text}1` }),
};

function worstMs(work: (text: string) => unknown, length: number): number {
  const times = worst.map((pump) => {
    const text = pump.repeat(Math.ceil(length / pump.length)).slice(0, length);
    const rounds = [1, 2, 3].map(() => {
      const before = process.cpuUsage();
      work(text);
      return process.cpuUsage(before).user / 1_000;
    });
    return Math.min(...rounds);
  });
  return Math.max(...times);
}

console.log(`| processor ms for | ${lengths.map((length) => `${length / 1_024} KiB`).join(' | ')} |`);
for (const [name, work] of Object.entries(works)) {
  console.log(`| ${name} | ${lengths.map((length) => worstMs(work, length).toFixed(1)).join(' | ')} |`);
}
console.log('| a daemon | peak MiB | slowest `status` ms | |');
const [, , only = ''] = process.argv;
for (const attack of attacks.filter(({ name }) => name.includes(only))) {
  await using gateway = await HostileGateway.start(attack);
  const { rssMiB, slowestStatusMs, failure } = await gateway.verdict();
  console.log(`| ${attack.name} | ${rssMiB} | ${slowestStatusMs} | ${failure ?? 'answers, updates, ends'} |`);
}
