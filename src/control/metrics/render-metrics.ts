import { unprintable } from '../../system/log/printable.ts';
import type { Family, Sample } from './family.ts';

export const openMetricsType = 'application/openmetrics-text; version=1.0.0; charset=utf-8';

/** The maximum length of a label value; longer texts are truncated. */
const MAX_LABEL_LENGTH = 128;

/** Renders OpenMetrics 1.0.0. A family without samples is left out. */
export function openMetrics(families: readonly Family[]): string {
  const texts = families.map((family) => {
    const unit = /_(seconds|bytes)$/.exec(family.name)?.[1];
    const head = [
      `# TYPE ${family.name} ${family.kind}`,
      ...(unit === undefined ? [] : [`# UNIT ${family.name} ${unit}`]),
      `# HELP ${family.name} ${family.help}`,
    ];
    return block(head, family);
  });
  return `${texts.join('')}# EOF\n`;
}

/** Renders the text format 0.0.4 of Prometheus for node_exporter. It knows no units, infos or state sets. */
export function prometheusText(families: readonly Family[]): string {
  const texts = families.map((family) => {
    const name = sampleName(family);
    const head = [`# HELP ${name} ${family.help}`, `# TYPE ${name} ${family.kind === 'counter' ? 'counter' : 'gauge'}`];
    return block(head, family);
  });
  return texts.join('');
}

function block(head: readonly string[], family: Family): string {
  if (family.samples.length === 0) return '';
  const lines = family.samples.map((sample) => `${sampleName(family)}${labelsOf(sample)} ${sample.value}`);
  return `${[...head, ...lines].join('\n')}\n`;
}

function sampleName({ name, kind }: Family): string {
  if (kind === 'counter') return `${name}_total`;
  return kind === 'info' ? `${name}_info` : name;
}

function labelsOf({ labels }: Sample): string {
  const pairs = Object.entries(labels).map(([name, text]) => `${name}="${labelValue(text)}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

/** Replaces characters that break a line, steer a terminal or are invisible. */
function labelValue(text: string): string {
  const shown = text.slice(0, MAX_LABEL_LENGTH).replaceAll(unprintable, '\u{FFFD}');
  return shown.replaceAll(/[\\"]/g, String.raw`\$&`);
}
