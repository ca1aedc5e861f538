import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { metricsOf } from '../../../../src/control/metrics/agent-metrics.ts';
import { counter, gauge, info, stateSet } from '../../../../src/control/metrics/family.ts';
import { openMetrics, prometheusText } from '../../../../src/control/metrics/render-metrics.ts';
import { anyCharacter } from '../../../any-character.ts';
import { calmStatus, calmTelemetry, troubledStatus } from '../../cli/fake-operations.ts';

const families = [
  info('a_build', 'The version.', [{ version: '1', chip: undefined }]),
  stateSet('a_state', 'What it is.', ['well', 'busy'], ['busy']),
  gauge('a_spool_bytes', 'On disk.', 0.5),
  counter('a_points', 'Of points.', [
    [{ reason: 'old' }, 3],
    [{ reason: 'full' }, undefined],
  ]),
  gauge('a_age_seconds', 'Nobody knows.', Number.NaN),
];

test('OpenMetrics has types, units and an end', () => {
  expect(openMetrics(families)).toBe(`# TYPE a_build info
# HELP a_build The version.
a_build_info{version="1"} 1
# TYPE a_state stateset
# HELP a_state What it is.
a_state{a_state="well"} 0
a_state{a_state="busy"} 1
# TYPE a_spool_bytes gauge
# UNIT a_spool_bytes bytes
# HELP a_spool_bytes On disk.
a_spool_bytes 0.5
# TYPE a_points counter
# HELP a_points Of points.
a_points_total{reason="old"} 3
# EOF
`);
});

test('the text for node_exporter has the types that it knows', () => {
  expect(prometheusText(families)).toBe(`# HELP a_build_info The version.
# TYPE a_build_info gauge
a_build_info{version="1"} 1
# HELP a_state What it is.
# TYPE a_state gauge
a_state{a_state="well"} 0
a_state{a_state="busy"} 1
# HELP a_spool_bytes On disk.
# TYPE a_spool_bytes gauge
a_spool_bytes 0.5
# HELP a_points_total Of points.
# TYPE a_points_total counter
a_points_total{reason="old"} 3
`);
});

test('tell of each source how far it has come, since when it is silent, and why something was dropped', () => {
  const [working = expect.fail(), failing = expect.fail()] = calmTelemetry.sources;
  const useless = { ...working, name: 'u', state: 'delivering' as const, silentForMs: 900_000 };
  const drops = { dropped: 3, droppedFor: { malformed: 2, 'no-match': 1 } };
  const telemetry = { ...calmTelemetry, sources: [working, failing, { ...useless, ...drops }] };
  const lines = openMetrics(metricsOf({ ...calmStatus, telemetry }, { attempts: [], discarded: 0 })).split('\n');
  expect(lines).toEqual(
    expect.arrayContaining([
      'thing_agent_source_up{source="sensors[0] (temperature)"} 1',
      'thing_agent_source_up{source="sensors[1] (level)"} 0',
      'thing_agent_source_up{source="u"} 0',
      'thing_agent_source_state{source="sensors[0] (temperature)",state="parsing"} 1',
      'thing_agent_source_state{source="sensors[1] (level)",state="connected"} 0',
      'thing_agent_source_state{source="u",state="delivering"} 1',
      'thing_agent_source_last_reading_age_seconds{source="u"} 900',
      'thing_agent_source_dropped_total{source="u",reason="malformed"} 2',
      'thing_agent_source_dropped_total{source="u",reason="ignored"} 0',
    ]),
  );
});

describe('a text in a label', () => {
  /** As the grammar of OpenMetrics has it. */
  const line = /^a_info\{version="(?<text>(?:[^\\"\n]|\\[\\"n])*)"\} 1$/u;
  const render = (version: string): readonly string[] =>
    prometheusText([info('a', 'Of it.', [{ version }])]).split('\n');

  test('yields one line that can be read, whatever it is', () => {
    const any = fc.string({ unit: anyCharacter, minLength: 1, maxLength: 1 });
    const unit = fc.oneof(any, fc.constantFrom('\\', '"', '\n', '}', '\u{d800}'));
    fc.assert(
      fc.property(fc.string({ unit, maxLength: 200 }), (version) => {
        const [, , sample = '', ...rest] = render(version);
        expect(rest).toEqual(['']);
        const text = line.exec(sample)?.groups?.['text'];
        expect(text).toBeDefined();
        expect(text?.replaceAll(/\\(.)/gu, '$1').length).toBeLessThanOrEqual(128);
        expect(Buffer.from(sample, 'utf8').toString('utf8')).toBe(sample);
      }),
      { numRuns: 500 },
    );
  });

  test.each([
    [String.raw`a\b"c`, String.raw`a\\b\"c`],
    ['a\nb\u{1b}[31m', 'a\u{FFFD}b\u{FFFD}[31m'],
    ['Gerät 1.4 ✓', 'Gerät 1.4 ✓'],
  ])('%j is shown as %j', (version, shown) => {
    expect(render(version)[2]).toBe(`a_info{version="${shown}"} 1`);
  });
});

test.each([calmStatus, troubledStatus])(
  'no metric has a help that would have to be escaped, or a name twice (%#)',
  (status) => {
    const all = metricsOf(status, { attempts: [], discarded: 0 });
    for (const { name, help } of all) {
      expect(name).toMatch(/^thing_agent_[a-z]+(?:_[a-z]+)*$/);
      expect(help).toMatch(/^[A-Z][^\\"\n]*\.$/);
    }
    const names = all.map(({ name }) => name);
    expect(names).toEqual([...new Set(names)]);
    for (const { samples } of all) {
      const labels = samples.map((sample) => JSON.stringify(sample.labels));
      expect(labels).toEqual([...new Set(labels)]);
    }
  },
);

test('a busy board is shown with its progress; an idle board, or a transfer instead, is not', () => {
  const activity = {
    process: 'the daemon',
    operation: 'flash',
    board: 'meter',
    doneBytes: 512,
    totalBytes: 2048,
  } as const;
  const text = (status: typeof calmStatus) => openMetrics(metricsOf(status, { attempts: [], discarded: 0 }));
  const flashing = text({ ...calmStatus, activity });
  expect(flashing).toContain('thing_agent_flash_done_bytes{board="meter"} 512\n');
  expect(flashing).toContain('thing_agent_flash_size_bytes{board="meter"} 2048\n');
  expect(flashing).not.toMatch(/^thing_agent_transfer_\w+ \d/m);
  expect(text(calmStatus)).not.toMatch(/^thing_agent_flash_\w+\{/m);
});
