import type { ProgramResult } from '../../system/processes/child-process.ts';

/** `InvocationID` is another one with each start of the unit (systemd.exec(5)). */
const properties = ['LoadState', 'ActiveState', 'SubState', 'InvocationID'] as const;

/** What systemd says of a unit (systemctl(1), show). */
type UnitState = Readonly<Record<(typeof properties)[number], string>>;

export function showUnit(unit: string): [string, ...string[]] {
  return ['systemctl', 'show', `--property=${properties.join(',')}`, '--', unit];
}

export function unitState({ stdout }: Pick<ProgramResult, 'stdout'>): UnitState {
  const lines = new Map(stdout.split('\n').map((line) => [line.split('=', 1)[0], line.slice(line.indexOf('=') + 1)]));
  const of = (name: (typeof properties)[number]): string => lines.get(name)?.trim() ?? '';
  return {
    LoadState: of('LoadState'),
    ActiveState: of('ActiveState'),
    SubState: of('SubState'),
    InvocationID: of('InvocationID'),
  };
}

/** Why the unit is not active; undefined: it is. */
export function complaintOfUnit(unit: string, { LoadState, ActiveState, SubState }: UnitState): string | undefined {
  if (LoadState === 'not-found') return `there is no unit ${unit}`;
  if (LoadState !== 'loaded' && LoadState !== '') return `${unit} is ${LoadState}, so it cannot be active`;
  if (ActiveState === 'active') return undefined;
  if (ActiveState === '') return `systemd does not say how ${unit} is`;
  return `${unit} is ${ActiveState}${SubState === ActiveState ? '' : ` (${SubState})`}`;
}
