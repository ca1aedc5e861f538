import { basename } from 'node:path';

import type { BoardPlan, BoardProbe } from '../control/api/board-report.ts';
import type { OnEvent, OperationOutcome } from '../control/events.ts';
import type { DaemonStatus } from '../control/gateway-state.ts';
import type { AgentOperations, InputOf, InstallFlags, OutputOf } from '../control/operations.ts';
import type { Activity, CheckReport, StatusReport } from '../control/reports.ts';
import { sourceOf } from '../firmware/file-source.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import type { Updater } from '../update/updater.ts';
import { readImage } from './board-files.ts';
import { listBoards, planBoard, probeBoard, restartBoard } from './boards.ts';
import type { CheckStats } from './cycles/scheduler.ts';
import { diagnose } from './doctor/doctor.ts';
import { finding } from './doctor/finding.ts';
import { describeConfig, noTargetsError } from './doctor/preconditions.ts';
import type { ReloadedConfig } from './doctor/preconditions.ts';
import { telemetryFindings } from './doctor/telemetry-checks.ts';
import { recordForce } from './security/record-events.ts';
import { listSensors, trySensor } from './sensors.ts';
import { checkReport } from './status/check-report.ts';
import { gatherStatus } from './status/gather-status.ts';
import { noQueue, sendPoints, setValue } from './values.ts';
import type { Wiring } from './wiring/wiring.ts';

export interface AgentDeps {
  /** Called for each operation, since a reload replaces the wiring. */
  readonly wiring: () => Wiring;
  /** The daemon's telemetry. Without it, values go directly to the service. */
  readonly telemetry?: () => Telemetry | undefined;
  readonly daemon: DaemonStatus;
  /** The schedule of checks, if a daemon runs that checks automatically. */
  readonly looks: () => CheckStats | undefined;
  readonly warnings: () => readonly string[];
  readonly readAgain?: ReloadedConfig;
  /** The change that another process is making, if any. */
  readonly activity?: () => Activity | undefined;
  /** Runs work while no other operation runs. Absent if there are no other operations. */
  readonly alone?: (
    work: (signal: AbortSignal) => Promise<OperationOutcome>,
    signal: AbortSignal,
  ) => Promise<OperationOutcome>;
  /** Resources that are disposed with this agent. */
  readonly resources?: AsyncDisposable;
}

/**
 * The operations that an operator or a program can request, performed in this process. They are called one at a time.
 */
export class Agent implements AgentOperations, AsyncDisposable {
  readonly #deps: AgentDeps;

  constructor(deps: AgentDeps) {
    this.#deps = deps;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#deps.resources?.[Symbol.asyncDispose]();
  }

  async status(_input: object, signal: AbortSignal): Promise<StatusReport> {
    return gatherStatus(this.#deps, signal);
  }

  async check(_input: object, signal: AbortSignal): Promise<CheckReport> {
    const look = await this.#updater.look({ manual: true, force: false }, signal);
    return checkReport(this.#wiring.journal.state, look, await this.#wiring.trust.keyNames(signal));
  }

  async update(flags: InstallFlags, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> {
    const updater = this.#updater;
    await recordForce(this.#wiring.security, 'update', flags);
    await this.#wiring.boardRoom.recover(onEvent, signal);
    return updater.updateNow({ ...flags, manual: true }, onEvent, signal);
  }

  async install(
    { path, file, ...flags }: InputOf<'install'>,
    onEvent: OnEvent,
    signal: AbortSignal,
  ): Promise<OperationOutcome> {
    await recordForce(this.#wiring.security, `install ${path}`, flags);
    return this.#updater.installFile(sourceOf(file), basename(path), flags, { onEvent, signal });
  }

  async history(): Promise<OutputOf<'history'>> {
    const { history, journal } = this.#wiring;
    return history.report(journal.state);
  }

  async inspect({ allowDowngrade, ...named }: InputOf<'inspect'>, signal: AbortSignal): Promise<OutputOf<'inspect'>> {
    const { inspectFile } = await import('./inspect-file.ts');
    return inspectFile(named, this.#wiring, signal, allowDowngrade);
  }

  async securityLog(): Promise<OutputOf<'securityLog'>> {
    return this.#wiring.security.report();
  }

  async activate(_input: object, signal: AbortSignal): Promise<OutputOf<'activate'>> {
    return this.#wiring.session.activate(signal);
  }

  async commit(_input: object, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> {
    return this.#updater.commit(onEvent, signal);
  }

  async rollback(flags: InstallFlags, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> {
    await recordForce(this.#wiring.security, 'rollback', flags);
    return this.#updater.rollback(flags, onEvent, signal);
  }

  async cancel(_input: object, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> {
    const { updater, journal } = this.#wiring;
    const version = journal.state.installed?.version.name ?? 'the running version';
    return updater === undefined ? { kind: 'nothing-to-cancel', version } : updater.cancel(onEvent, signal);
  }

  async reboot(_input: object, signal: AbortSignal): Promise<OutputOf<'reboot'>> {
    const { machine, updater } = this.#wiring;
    const work = async (inner: AbortSignal): Promise<void> => (updater ?? machine).reboot(undefined, inner);
    const unarmed = await updater?.findUnarmed(signal);
    const { alone } = this.#deps;
    if (unarmed === undefined || alone === undefined) await work(signal);
    else await alone(async (inner) => work(inner).then(() => ({ kind: 'rebooting', ...unarmed })), signal);
    return {};
  }

  async unblock({ version }: InputOf<'unblock'>): Promise<OutputOf<'unblock'>> {
    return { versions: [await this.#updater.unblock(version)] };
  }

  async hold(order: InputOf<'hold'>): Promise<OutputOf<'hold'>> {
    return this.#updater.hold(order);
  }

  async resume(): Promise<OutputOf<'resume'>> {
    return { wasHeld: await this.#updater.resume() };
  }

  async property({ id }: InputOf<'property'>, signal: AbortSignal): Promise<OutputOf<'property'>> {
    return { value: await this.#wiring.session.property(id, signal) };
  }

  async setProperty(property: InputOf<'setProperty'>, signal: AbortSignal): Promise<OutputOf<'setProperty'>> {
    return { safeAt: await setValue(property, { wiring: this.#wiring, telemetry: this.#telemetry }, signal) };
  }

  async sendDatapoint(point: InputOf<'sendDatapoint'>, signal: AbortSignal): Promise<OutputOf<'sendDatapoint'>> {
    return this.sendDatapoints({ points: [point] }, signal);
  }

  async sendDatapoints(
    { points }: InputOf<'sendDatapoints'>,
    signal: AbortSignal,
  ): Promise<OutputOf<'sendDatapoints'>> {
    return { safeAt: await sendPoints(points, { wiring: this.#wiring, telemetry: this.#telemetry }, signal) };
  }

  async queue(): Promise<OutputOf<'queue'>> {
    const telemetry = this.#telemetry;
    if (telemetry === undefined) throw noQueue();
    return telemetry.status();
  }

  async sensors(): Promise<OutputOf<'sensors'>> {
    return listSensors({ wiring: this.#wiring, telemetry: this.#telemetry });
  }

  async trySensor({ name }: InputOf<'trySensor'>, signal: AbortSignal): Promise<OutputOf<'trySensor'>> {
    return trySensor(name, { wiring: this.#wiring, telemetry: this.#telemetry }, signal);
  }

  async syncQueue(): Promise<OutputOf<'syncQueue'>> {
    const telemetry = this.#telemetry;
    if (telemetry === undefined) throw noQueue();
    return { onDisk: telemetry.flush() };
  }

  async boards(): Promise<OutputOf<'boards'>> {
    return { boards: await listBoards(this.#wiring) };
  }

  async probeBoard({ board }: InputOf<'probeBoard'>, signal: AbortSignal): Promise<BoardProbe> {
    return probeBoard(this.#wiring, board, signal);
  }

  async planBoard({ board, ...named }: InputOf<'planBoard'>, signal: AbortSignal): Promise<BoardPlan> {
    return planBoard(this.#wiring, board, named, signal);
  }

  async resetBoard({ board }: InputOf<'resetBoard'>, signal: AbortSignal): Promise<OutputOf<'resetBoard'>> {
    await restartBoard(this.#wiring, board, signal);
    return {};
  }

  async flash(
    { path, file, ...order }: InputOf<'flash'>,
    onEvent: OnEvent,
    signal: AbortSignal,
  ): Promise<OperationOutcome> {
    const { security, boardRoom } = this.#wiring;
    await recordForce(security, `mcu flash ${order.board} ${path}`, order);
    const read = async (): Promise<Uint8Array> => readImage({ path, file }, signal);
    return boardRoom.flash(order, { name: basename(path), read }, onEvent, signal);
  }

  async restore({ board }: InputOf<'restore'>, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> {
    return this.#wiring.boardRoom.restore(board, onEvent, signal);
  }

  async doctor(_input: object, signal: AbortSignal): Promise<OutputOf<'doctor'>> {
    const { readAgain } = this.#deps;
    const configuration = readAgain && (await finding('configuration', async () => describeConfig(await readAgain())));
    const findings = await diagnose(this.#wiring, this.#deps.activity?.(), signal);
    const measuring = telemetryFindings(this.#telemetry?.status(), await this.sensors());
    return { findings: [...(configuration === undefined ? [] : [configuration]), ...findings, ...measuring] };
  }

  get #telemetry(): Telemetry | undefined {
    return this.#deps.telemetry?.();
  }

  get #wiring(): Wiring {
    return this.#deps.wiring();
  }

  get #updater(): Updater {
    const { updater } = this.#wiring;
    if (updater === undefined) throw noTargetsError();
    return updater;
  }
}
