import { securityEventMeanings } from '../security/security-event-meanings.ts';
import type { SecurityEvent, SecurityReport } from '../security/security-events.ts';
import type { Row } from './row.ts';

export function securityRows({ events }: SecurityReport): readonly Row[] {
  return events.map((event) => ({ label: String(event.number), paragraphs: paragraphsOf(event) }));
}

function paragraphsOf({ id, at, lastAt, times, detail }: SecurityEvent): readonly string[] {
  const again = times === 1 ? '' : `, ${times} times, the last ${lastAt}`;
  const meaning = Object.entries(securityEventMeanings).find(([known]) => known === id)?.[1];
  return [`${at}  ${id}${again}`, detail, ...(meaning === undefined ? [] : [meaning])];
}
