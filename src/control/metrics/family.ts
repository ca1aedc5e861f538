/**
 * A metric family of OpenMetrics 1.0.0: samples of a counter end with `_total`, samples of an info with `_info`; the
 * name ends with the unit.
 */
export interface Family {
  readonly name: string;
  readonly kind: 'gauge' | 'counter' | 'info' | 'stateset';
  /** One line without backslashes and quotation marks. */
  readonly help: string;
  readonly samples: readonly Sample[];
}

export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** A value without labels, or several values with labels. An unknown value yields no sample. */
type Values = number | undefined | readonly (readonly [Sample['labels'], number | undefined])[];

export function gauge(name: string, help: string, values: Values): Family {
  return { name, kind: 'gauge', help, samples: samplesOf(values) };
}

export function counter(name: string, help: string, values: Values): Family {
  return { name, kind: 'counter', help, samples: samplesOf(values) };
}

/** Returns a family with texts as labels. Unknown texts are omitted. */
export function info(
  name: string,
  help: string,
  things: readonly Readonly<Record<string, string | undefined>>[],
): Family {
  const samples = things.map((labels) => ({ labels: withoutUndefined(labels), value: 1 }));
  return { name, kind: 'info', help, samples };
}

/**
 * Returns a family with one sample for each word of a set, 1 for the present words. If `present` is undefined, there
 * are no samples.
 */
export function stateSet(
  name: string,
  help: string,
  words: readonly string[],
  present: readonly string[] | undefined,
): Family {
  const samples =
    present === undefined
      ? []
      : words.map((word) => ({ labels: { [name]: word }, value: Number(present.includes(word)) }));
  return { name, kind: 'stateset', help, samples };
}

function samplesOf(values: Values): readonly Sample[] {
  const all: Exclude<Values, number | undefined> = typeof values === 'object' ? values : [[{}, values]];
  return all.flatMap(([labels, value]) => (value === undefined || Number.isNaN(value) ? [] : [{ labels, value }]));
}

function withoutUndefined(labels: Readonly<Record<string, string | undefined>>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(labels).filter((pair): pair is [string, string] => pair[1] !== undefined));
}
