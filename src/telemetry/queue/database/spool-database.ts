import type { DatabaseSync, SQLInputValue, SQLOutputValue, StatementSync } from 'node:sqlite';

import { TelemetryError } from '../../errors.ts';
import { pointClasses, pointOverheadBytes } from '../../point.ts';
import type { PointClass } from '../../point.ts';
import { openExclusive } from './open-alone.ts';
import { isJson, isWhole, maxSeq, emptyTotals } from './records.ts';
import type { Amount, BootRecord, DeadLetter, QueueTotals, PointRange, StoredPoint, StreamRecord } from './records.ts';
import { spoolFormat, spoolSchema } from './spool-schema.ts';
import { spoolError } from './sqlite-errors.ts';

const anyPoint = `EXISTS (${pointClasses.map((table) => `SELECT 1 FROM ${table}`).join(' UNION ALL ')})`;

type Row = Record<string, SQLOutputValue>;

/**
 * The tables of the spool. Everything is synchronous and throws TelemetryError; nothing is remembered between calls.
 */
export class SpoolDatabase implements Disposable {
  readonly #db: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  private constructor(db: DatabaseSync) {
    this.#db = db;
  }

  /** Opens a file, and makes the tables if they are missing. */
  static open(path: string): SpoolDatabase {
    let db: DatabaseSync | undefined;
    try {
      db = openExclusive(path);
      db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 4194304');
      const format = Number(db.prepare('PRAGMA user_version').get()?.['user_version']);
      const tables = Number(db.prepare('SELECT count(*) AS n FROM sqlite_schema').get()?.['n']);
      if (format === 0 && tables === 0) db.exec(`BEGIN IMMEDIATE; ${spoolSchema} COMMIT`);
      else if (format !== spoolFormat) throw new TelemetryError('queue-damaged', `${path} is no spool of this agent`);
      return new SpoolDatabase(db);
    } catch (error) {
      db?.close();
      throw spoolError(error);
    }
  }

  static openDamaged(path: string): SpoolDatabase {
    try {
      return new SpoolDatabase(openExclusive(path));
    } catch (error) {
      throw spoolError(error);
    }
  }

  [Symbol.dispose](): void {
    this.#db.close();
  }

  /** Does all of the work or nothing. It is durable when this returns. */
  transaction(work: () => void): void {
    try {
      this.#db.exec('BEGIN IMMEDIATE');
      try {
        work();
        this.#db.exec('COMMIT');
      } catch (error) {
        if (this.#db.isTransaction) this.#db.exec('ROLLBACK');
        throw error;
      }
    } catch (error) {
      throw spoolError(error);
    }
  }

  streams(): readonly StreamRecord[] {
    return this.#all('SELECT id, event, class, last_at, last_ms FROM streams').map((row) => ({
      id: Number(row['id']),
      event: String(row['event']),
      class: classOf(row['class']),
      lastAtMs: Number(row['last_at']),
      lastSinceBootMs: Number(row['last_ms']),
    }));
  }

  saveStream({ id, event, class: pointClass, lastAtMs, lastSinceBootMs }: StreamRecord): void {
    const times = 'last_at = excluded.last_at, last_ms = excluded.last_ms';
    const sql = `INSERT OR REPLACE INTO streams VALUES (?, ?, ?, ?, ?, 0, 0) ON CONFLICT (id) DO UPDATE SET ${times}`;
    this.#run(sql, [id, event, pointClass, lastAtMs, lastSinceBootMs]);
  }

  /** The points and bytes of each class. These counts of the streams follow every addition and removal. */
  holdings(): QueueTotals {
    const sql = 'SELECT class, sum(points) AS points, sum(bytes) AS bytes FROM streams GROUP BY class';
    const holdings: Record<PointClass, Amount> = { ...emptyTotals };
    for (const row of this.#all(sql)) {
      holdings[classOf(row['class'])] = { points: Number(row['points']), bytes: Number(row['bytes']) };
    }
    return holdings;
  }

  /** Counts the points anew where the counts cannot be right: damage may leave them readable. */
  repairCounts(): void {
    if (!this.#isMiscounted()) return;
    this.transaction(() => this.recount());
    if (this.#isMiscounted()) throw new TelemetryError('queue-damaged', 'the spool is damaged: points have no event');
  }

  /** Counts all points anew, which takes the longer the more wait. */
  recount(): void {
    this.#run('UPDATE streams SET points = 0, bytes = 0', []);
    for (const table of pointClasses) this.#count('+', { class: table, first: -maxSeq, last: maxSeq });
  }

  boots(): readonly BootRecord[] {
    return this.#all('SELECT * FROM boots ORDER BY id').map((row) => ({
      id: Number(row['id']),
      name: String(row['name']),
      lastMs: Number(row['last_ms']),
      startedAtMs: optionalNumber(row['offset']),
    }));
  }

  /** Saves a boot. If nothing has changed, nothing is written. */
  saveBoot({ id, name, lastMs, startedAtMs }: BootRecord): void {
    const update = 'UPDATE SET last_ms = excluded.last_ms, offset = excluded.offset';
    const differs = 'last_ms IS NOT excluded.last_ms OR offset IS NOT excluded.offset';
    const sql = `INSERT OR REPLACE INTO boots VALUES (?, ?, ?, ?) ON CONFLICT (id) DO ${update} WHERE ${differs}`;
    this.#run(sql, [id, name, lastMs, startedAtMs ?? null]);
  }

  deleteBoot(id: number): void {
    this.#run('DELETE FROM boots WHERE id = ?', [id]);
  }

  lastSeq(): number {
    const last = 'max(coalesce((SELECT max(seq) FROM urgent), 0), coalesce((SELECT max(seq) FROM normal), 0)';
    const rows = this.#all(`SELECT ${last}, coalesce((SELECT max(seq) FROM bulk), 0)) AS n`);
    const seq = Number(rows[0]?.['n']);
    if (seq > maxSeq) throw new TelemetryError('queue-damaged', `the spool is damaged: there is a point ${seq}`);
    return seq;
  }

  /** Adds points in the order of their seqs, which must be new. Their streams must exist. */
  addPoints(table: PointClass, points: readonly StoredPoint[]): void {
    const [first, last] = [points[0], points.at(-1)];
    if (first === undefined || last === undefined) return;
    const sql = `INSERT INTO ${table} VALUES (?, ?, ?, ?, ?, ?)`;
    for (const { seq, stream, atMs, boot, sinceBootMs, text } of points) {
      this.#run(sql, [seq, stream, atMs ?? null, boot, sinceBootMs, text]);
    }
    this.#count('+', { class: table, first: first.seq, last: last.seq });
  }

  /** The oldest points of a class, without those of some streams. A row that is no point is damage. */
  oldest(table: PointClass, limit: number, without: readonly number[] = []): readonly StoredPoint[] {
    const others = `NOT IN (${without.join(', ')})`;
    const isThere = `EXISTS (SELECT 1 FROM streams WHERE class = '${table}' AND points > 0 AND id ${others})`;
    const where = without.length === 0 ? '' : `WHERE stream ${others} AND ${isThere}`;
    const sql = `SELECT * FROM ${table} ${where} ORDER BY seq LIMIT ?`;
    try {
      const points: StoredPoint[] = [];
      for (const row of this.#statement(sql, without.length === 0).iterate(limit)) points.push(storedPoint(row));
      if (!points.every(isWhole)) throw new TelemetryError('queue-damaged', 'the spool is damaged: a row is no point');
      return points;
    } catch (error) {
      throw spoolError(error);
    }
  }

  /** The readable points of a class after a seq, for salvage. */
  after(table: PointClass, seq: number, limit: number): readonly StoredPoint[] {
    return this.#all(`SELECT * FROM ${table} WHERE seq > ? ORDER BY seq LIMIT ?`, [seq, limit]).map(storedPoint);
  }

  /** Removes points. Returns how many there were. */
  remove(range: PointRange): number {
    this.#count('-', range);
    const { where, values } = rowsOf(range);
    return this.#run(`DELETE ${where}`, values);
  }

  /** Without values that damage has made no JSON. */
  properties(): ReadonlyMap<string, string> {
    const rows = this.#all('SELECT id, value FROM properties');
    const properties = rows.map((row) => [String(row['id']), String(row['value'])] as const);
    return new Map(properties.filter(([, text]) => isJson(text)));
  }

  saveProperty(id: string, text: string): void {
    this.#run('INSERT OR REPLACE INTO properties VALUES (?, ?)', [id, text]);
  }

  deleteProperty(id: string): void {
    this.#run('DELETE FROM properties WHERE id = ?', [id]);
  }

  deadLetters(limit: number): readonly DeadLetter[] {
    return this.#all('SELECT * FROM dead ORDER BY seq DESC LIMIT ?', [limit]).map((row) => ({
      event: String(row['event']),
      atMs: Number(row['at']),
      text: String(row['value']),
      reason: String(row['reason']),
    }));
  }

  countDeadLetters(): number {
    return Number(this.#all('SELECT count(*) AS n FROM dead')[0]?.['n']);
  }

  /** Keeps a dead letter; only the newest `keep` ones remain. */
  addDeadLetter({ event, atMs, text, reason }: DeadLetter, keep: number): void {
    this.#run('INSERT INTO dead VALUES (NULL, ?, ?, ?, ?)', [event, atMs, text, reason]);
    const beyond = 'SELECT seq FROM dead ORDER BY seq DESC LIMIT -1 OFFSET ?';
    this.#run(`DELETE FROM dead WHERE seq IN (${beyond})`, [keep]);
  }

  /** The size of the file, without the write-ahead log. */
  fileBytes(): number {
    const pages = Number(this.#all('PRAGMA page_count')[0]?.['page_count']);
    return pages * Number(this.#all('PRAGMA page_size')[0]?.['page_size']);
  }

  /** Gives the room of deleted points back to the file system. Costs nothing while there are few points. */
  shrink(): void {
    try {
      this.#db.exec('VACUUM; PRAGMA wal_checkpoint(TRUNCATE)');
    } catch (error) {
      throw spoolError(error);
    }
  }

  /** Adds what is in a range to the counts of its streams, or subtracts it. */
  #count(sign: '+' | '-', range: PointRange): void {
    const { where, values } = rowsOf(range);
    const size = `octet_length(value) + ${pointOverheadBytes}`;
    const sums = `SELECT stream, count(*) AS points, sum(${size}) AS bytes ${where} GROUP BY stream`;
    const set = `points = streams.points ${sign} sums.points, bytes = streams.bytes ${sign} sums.bytes`;
    this.#run(`UPDATE streams SET ${set} FROM (${sums}) AS sums WHERE id = sums.stream`, values);
  }

  #isMiscounted(): boolean {
    const tooFew = 'coalesce(min(points) < 0 OR min(bytes) < 0, 0)';
    const sql = `SELECT ${tooFew} OR (coalesce(sum(points), 0) > 0) <> (${anyPoint}) AS yes FROM streams`;
    return Number(this.#all(sql)[0]?.['yes']) === 1;
  }

  #all(sql: string, values: readonly SQLInputValue[] = []): readonly Row[] {
    try {
      return this.#statement(sql, true).all(...values);
    } catch (error) {
      throw spoolError(error);
    }
  }

  /** Runs a statement. Returns the number of rows that it has changed. */
  #run(sql: string, values: readonly SQLInputValue[]): number {
    try {
      return Number(this.#statement(sql, true).run(...values).changes);
    } catch (error) {
      throw spoolError(error);
    }
  }

  #statement(sql: string, keep: boolean): StatementSync {
    const kept = this.#statements.get(sql);
    if (kept !== undefined) return kept;
    const statement = this.#db.prepare(sql);
    if (keep) this.#statements.set(sql, statement);
    return statement;
  }
}

function rowsOf({ class: table, first, last, stream }: PointRange): { where: string; values: readonly number[] } {
  const where = `FROM ${table} WHERE seq BETWEEN ? AND ?`;
  if (stream === undefined) return { where, values: [first, last] };
  return { where: `${where} AND stream = ?`, values: [first, last, stream] };
}

function storedPoint(row: Row): StoredPoint {
  return {
    seq: Number(row['seq']),
    stream: Number(row['stream']),
    atMs: optionalNumber(row['at']),
    boot: Number(row['boot']),
    sinceBootMs: Number(row['ms']),
    text: String(row['value']),
  };
}

function optionalNumber(value: SQLOutputValue | undefined): number | undefined {
  return value === null || value === undefined ? undefined : Number(value);
}

function classOf(value: SQLOutputValue | undefined): PointClass {
  return value === 'urgent' || value === 'bulk' ? value : 'normal';
}
