import { securityEventMeanings } from '../../security/security-event-meanings.ts';
import type { SecurityEvent, SecurityReport } from '../../security/security-events.ts';
import { formatTime } from '../time.ts';
import type { When } from '../time.ts';
import type { Row } from './row.ts';

export function securityRows({ events }: SecurityReport, when: When): readonly Row[] {
  return events.map((event) => ({ label: String(event.number), paragraphs: paragraphsOf(event, when) }));
}

function paragraphsOf({ id, at, lastAt, count, detail }: SecurityEvent, when: When): readonly string[] {
  const told = (iso: string): string => formatTime(iso, when, 'log');
  const again = count === 1 ? '' : `, ${count} times, the last ${told(lastAt)}`;
  const meaning = Object.entries(securityEventMeanings).find(([known]) => known === id)?.[1];
  return [`${told(at)}  ${id}${again}`, detail, ...(meaning === undefined ? [] : [meaning])];
}
