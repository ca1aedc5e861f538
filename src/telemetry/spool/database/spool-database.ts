import type { DatabaseSync, SQLInputValue, SQLOutputValue, StatementSync } from 'node:sqlite';

import { TelemetryError } from '../../errors.ts';
import { pointOverheadBytes } from '../../point.ts';
import type { PointClass } from '../../point.ts';
import { openAlone } from './open-alone.ts';
import { spoolFormat, spoolSchema } from './spool-schema.ts';
import { spoolError } from './sqlite-errors.ts';

export interface StoredPoint {
  readonly seq: number;
  readonly stream: number;
  /** Undefined: the clock was not set. */
  readonly atMs: number | undefined;
  /** Of `boots`, and the time since then when the point came. */
  readonly boot: number;
  readonly sinceBootMs: number;
  /** JSON. */
  readonly text: string;
}

export interface StreamRecord {
  readonly id: number;
  readonly event: string;
  readonly class: PointClass;
  /** The latest `at` that was given out; the next is later. */
  readonly lastAtMs: number;
  /** The same for points that came before the clock was set. */
  readonly lastSinceBootMs: number;
  readonly points: number;
  readonly bytes: number;
}

export interface BootRecord {
  readonly id: number;
  readonly name: string;
  /** When its last point came. */
  readonly lastMs: number;
  /** Wall clock at its start; undefined: its clock was never set. */
  readonly startedAtMs: number | undefined;
}

export interface DeadLetter {
  readonly seq: number;
  readonly event: string;
  readonly atMs: number;
  readonly text: string;
  readonly reason: string;
}

/** Points of one class, by their seq, both ends included; of one stream, or of all. */
export interface PointRange {
  readonly class: PointClass;
  readonly first: number;
  readonly last: number;
  readonly stream?: number | undefined;
}

export interface Tally {
  readonly stream: number;
  readonly points: number;
  readonly bytes: number;
}

type Row = Record<string, SQLOutputValue>;

/** The spool's tables. Everything is synchronous and throws TelemetryError; nothing is remembered between calls. */
export class SpoolDatabase implements Disposable {
  readonly #db: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  private constructor(db: DatabaseSync) {
    this.#db = db;
  }

  /** Makes the tables where there are none. */
  static open(path: string): SpoolDatabase {
    let db: DatabaseSync | undefined;
    try {
      db = openAlone(path);
      db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 4194304');
      const format = Number(db.prepare('PRAGMA user_version').get()?.['user_version']);
      const tables = Number(db.prepare('SELECT count(*) AS n FROM sqlite_schema').get()?.['n']);
      if (format === 0 && tables === 0) db.exec(`BEGIN IMMEDIATE; ${spoolSchema} COMMIT`);
      else if (format !== spoolFormat) throw new TelemetryError('spool-damaged', `${path} is no spool of this agent`);
      return new SpoolDatabase(db);
    } catch (error) {
      db?.close();
      throw spoolError(error);
    }
  }

  static openDamaged(path: string): SpoolDatabase {
    try {
      return new SpoolDatabase(openAlone(path));
    } catch (error) {
      throw spoolError(error);
    }
  }

  [Symbol.dispose](): void {
    this.#db.close();
  }

  /** All of it or nothing; durable when it returns. */
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
    return this.#all('SELECT * FROM streams').map((row) => ({
      id: Number(row['id']),
      event: String(row['event']),
      class: classOf(row['class']),
      lastAtMs: Number(row['last_at']),
      lastSinceBootMs: Number(row['last_ms']),
      points: Number(row['points']),
      bytes: Number(row['bytes']),
    }));
  }

  saveStream(stream: StreamRecord): void {
    const { id, event, lastAtMs, lastSinceBootMs, points, bytes } = stream;
    const values = [id, event, stream.class, lastAtMs, lastSinceBootMs, points, bytes];
    this.#run('INSERT OR REPLACE INTO streams VALUES (?, ?, ?, ?, ?, ?, ?)', values);
  }

  boots(): readonly BootRecord[] {
    return this.#all('SELECT * FROM boots ORDER BY id').map((row) => ({
      id: Number(row['id']),
      name: String(row['name']),
      lastMs: Number(row['last_ms']),
      startedAtMs: optionalNumber(row['offset']),
    }));
  }

  saveBoot({ id, name, lastMs, startedAtMs }: BootRecord): void {
    this.#run('INSERT OR REPLACE INTO boots VALUES (?, ?, ?, ?)', [id, name, lastMs, startedAtMs ?? null]);
  }

  deleteBoot(id: number): void {
    this.#run('DELETE FROM boots WHERE id = ?', [id]);
  }

  lastSeq(): number {
    const last = 'max(coalesce((SELECT max(seq) FROM urgent), 0), coalesce((SELECT max(seq) FROM normal), 0)';
    const rows = this.#all(`SELECT ${last}, coalesce((SELECT max(seq) FROM bulk), 0)) AS n`);
    return Number(rows[0]?.['n']);
  }

  addPoint(table: PointClass, point: StoredPoint): void {
    const { seq, stream, atMs, boot, sinceBootMs, text } = point;
    this.#run(`INSERT INTO ${table} VALUES (?, ?, ?, ?, ?, ?)`, [seq, stream, atMs ?? null, boot, sinceBootMs, text]);
  }

  /** The oldest of a class, but for some streams. */
  oldest(table: PointClass, limit: number, without: readonly number[] = []): readonly StoredPoint[] {
    const others = without.length === 0 ? '' : `WHERE stream NOT IN (${without.join(', ')})`;
    const sql = `SELECT * FROM ${table} ${others} ORDER BY seq LIMIT ?`;
    try {
      const points: StoredPoint[] = [];
      for (const row of this.#statement(sql, without.length === 0).iterate(limit)) points.push(storedPoint(row));
      return points;
    } catch (error) {
      throw spoolError(error);
    }
  }

  /** Of one class after a seq, whatever is readable; for salvage. */
  after(table: PointClass, seq: number, limit: number): readonly StoredPoint[] {
    return this.#all(`SELECT * FROM ${table} WHERE seq > ? ORDER BY seq LIMIT ?`, [seq, limit]).map(storedPoint);
  }

  /** Tells what was there to remove. */
  remove(range: PointRange): readonly Tally[] {
    const where = `seq BETWEEN ? AND ?${range.stream === undefined ? '' : ' AND stream = ?'}`;
    const values = [range.first, range.last, ...(range.stream === undefined ? [] : [range.stream])];
    const removed = this.#tally(range.class, `WHERE ${where}`, values);
    this.#run(`DELETE FROM ${range.class} WHERE ${where}`, values);
    return removed;
  }

  /** Per stream; reads the whole table. */
  tally(table: PointClass): readonly Tally[] {
    return this.#tally(table, '', []);
  }

  properties(): ReadonlyMap<string, string> {
    const rows = this.#all('SELECT id, value FROM properties');
    return new Map(rows.map((row) => [String(row['id']), String(row['value'])]));
  }

  saveProperty(id: string, text: string): void {
    this.#run('INSERT OR REPLACE INTO properties VALUES (?, ?)', [id, text]);
  }

  deleteProperty(id: string): void {
    this.#run('DELETE FROM properties WHERE id = ?', [id]);
  }

  deadLetters(limit: number): readonly DeadLetter[] {
    return this.#all('SELECT * FROM dead ORDER BY seq DESC LIMIT ?', [limit]).map((row) => ({
      seq: Number(row['seq']),
      event: String(row['event']),
      atMs: Number(row['at']),
      text: String(row['value']),
      reason: String(row['reason']),
    }));
  }

  countDeadLetters(): number {
    return Number(this.#all('SELECT count(*) AS n FROM dead')[0]?.['n']);
  }

  /** Keeps the newest `keep`. */
  bury({ seq, event, atMs, text, reason }: DeadLetter, keep: number): void {
    this.#run('INSERT OR REPLACE INTO dead VALUES (?, ?, ?, ?, ?)', [seq, event, atMs, text, reason]);
    const beyond = 'SELECT seq FROM dead ORDER BY seq DESC LIMIT -1 OFFSET ?';
    this.#run(`DELETE FROM dead WHERE seq IN (${beyond})`, [keep]);
  }

  /** Of the file, without the write-ahead log. */
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

  #tally(table: PointClass, where: string, values: readonly SQLInputValue[]): readonly Tally[] {
    const bytes = `sum(octet_length(value)) + count(*) * ${pointOverheadBytes}`;
    const sums = `SELECT stream, count(*) AS points, ${bytes} AS bytes`;
    return this.#all(`${sums} FROM ${table} ${where} GROUP BY stream`, values).map((row) => ({
      stream: Number(row['stream']),
      points: Number(row['points']),
      bytes: Number(row['bytes']),
    }));
  }

  #all(sql: string, values: readonly SQLInputValue[] = []): readonly Row[] {
    try {
      return this.#statement(sql, true).all(...values);
    } catch (error) {
      throw spoolError(error);
    }
  }

  #run(sql: string, values: readonly SQLInputValue[]): void {
    try {
      this.#statement(sql, true).run(...values);
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
