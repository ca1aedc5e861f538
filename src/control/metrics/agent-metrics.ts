import { gatewayStates, idleCodes, problems } from '../gateway-state.ts';
import type { HistoryReport } from '../history.ts';
import type { AgentOperations } from '../operations.ts';
import type { StatusReport } from '../reports.ts';
import { counter, gauge, info, stateSet } from './family.ts';
import type { Family } from './family.ts';
import { telemetryMetrics } from './telemetry-metrics.ts';

/** All metrics: what `status` and `history` say, as numbers. */
export async function agentMetrics(
  agent: Pick<AgentOperations, 'status' | 'history'>,
  signal: AbortSignal,
): Promise<readonly Family[]> {
  return metricsOf(await agent.status({}, signal), await agent.history({}, signal));
}

/**
 * The metrics of a status and a history. The texts of labels come from closed sets, the configuration or a release;
 * none tells the gateway's identity. Pure.
 */
export function metricsOf(status: StatusReport, history: HistoryReport): readonly Family[] {
  return [
    info('thing_agent_build', 'The version of the agent.', [{ version: status.agentVersion }]),
    ...stateMetrics(status),
    ...updateMetrics(status),
    ...trafficMetrics(status),
    ...historyMetrics(history),
    ...boardMetrics(status),
    ...flashMetrics(status),
    ...telemetryMetrics(status.telemetry),
  ];
}

function stateMetrics({ state, problems: found, idleCode, hold, warnings }: StatusReport): readonly Family[] {
  return [
    stateSet('thing_agent_state', 'What the gateway is.', gatewayStates, state === undefined ? undefined : [state]),
    stateSet('thing_agent_problem', 'What keeps the gateway from being well.', problems, found),
    stateSet(
      'thing_agent_idle_reason',
      'Why nothing is being installed.',
      idleCodes,
      idleCode === undefined ? undefined : [idleCode],
    ),
    gauge('thing_agent_hold_active', 'Whether a person wants nothing to be installed.', Number(hold !== undefined)),
    gauge('thing_agent_warnings', 'Settings and findings that weaken a promise.', warnings.length),
  ];
}

function updateMetrics(status: StatusReport): readonly Family[] {
  const { installed, slotStates, booted, activity, service, checks, throttle } = status;
  const slots = Object.entries(slotStates ?? {});
  const ofTransfer = activity?.phase === 'staging' ? activity : undefined;
  return [
    info(
      'thing_agent_firmware',
      'The firmware that is installed.',
      installed === undefined ? [] : [{ slot: installed.slot, version: installed.versionName }],
    ),
    gauge(
      'thing_agent_slot_bootable',
      'Whether the bootloader may boot the slot.',
      slots.map(([slot, { bootable }]) => [{ slot }, Number(bootable)]),
    ),
    gauge(
      'thing_agent_slot_booted',
      'Whether the slot runs.',
      booted === undefined ? [] : slots.map(([slot]) => [{ slot }, Number(slot === booted)]),
    ),
    gauge(
      'thing_agent_transfer_received_bytes',
      'Of the firmware that is being fetched: what has come.',
      ofTransfer?.doneBytes,
    ),
    gauge(
      'thing_agent_transfer_size_bytes',
      'Of the firmware that is being fetched: all of it.',
      ofTransfer?.totalBytes,
    ),
    gauge(
      'thing_agent_transfer_limit_bytes_per_second',
      'What a download may take of the line now.',
      throttle?.bytesPerSecond,
    ),
    gauge('thing_agent_quarantined_versions', 'Versions that ended badly and wait.', status.quarantine.length),
    gauge(
      'thing_agent_service_last_contact_timestamp_seconds',
      'When the service answered last.',
      unixSeconds(service.lastContactAt),
    ),
    gauge(
      'thing_agent_last_successful_check_timestamp_seconds',
      'When a look at the service last ended well.',
      unixSeconds(checks?.lastSuccessAt),
    ),
    gauge(
      'thing_agent_consecutive_failed_checks',
      'Looks that failed since the last that ended well.',
      checks?.consecutiveFailures,
    ),
    gauge(
      'thing_agent_next_check_timestamp_seconds',
      'When the service is asked next.',
      unixSeconds(status.nextCheckAt),
    ),
    gauge('thing_agent_reports_pending', 'Ends of attempts that the service does not know yet.', status.pendingReports),
    gauge('thing_agent_reports_dropped', 'Ends of attempts that the service will not learn.', status.droppedReports),
  ];
}

function trafficMetrics({ traffic }: StatusReport): readonly Family[] {
  return [
    counter(
      'thing_agent_service_received_bytes',
      'What came over the line to the service since the daemon began.',
      traffic?.sinceStart.receivedBytes,
    ),
    counter(
      'thing_agent_service_sent_bytes',
      'What went over the line to the service since the daemon began.',
      traffic?.sinceStart.sentBytes,
    ),
  ];
}

/** How attempts end. A later agent may know others. */
const outcomes = ['installed', 'failed', 'refused', 'rolled-back'] as const;

/**
 * The history forgets old attempts: sums over it may fall, and are no counters. The number of attempts is a counter,
 * since the history knows how many it forgot.
 */
function historyMetrics({ attempts, discarded }: HistoryReport): readonly Family[] {
  const sum = (bytes: (attempt: HistoryReport['attempts'][number]) => number | undefined): number =>
    attempts.reduce((total, attempt) => total + (bytes(attempt) ?? 0), 0);
  const ended = (outcome: string): number => attempts.filter((attempt) => attempt.outcome === outcome).length;
  return [
    counter('thing_agent_update_attempts', 'Attempts to install something.', discarded + attempts.length),
    gauge(
      'thing_agent_history_attempts',
      'Attempts of the history, which keeps the last, by how they ended.',
      outcomes.map((outcome) => [{ outcome }, ended(outcome)]),
    ),
    gauge(
      'thing_agent_history_fetched_bytes',
      'Fetched for the attempts of the history.',
      sum(({ fetchedBytes }) => fetchedBytes),
    ),
    gauge(
      'thing_agent_history_written_bytes',
      'Written for the attempts of the history.',
      sum(({ writtenBytes }) => writtenBytes),
    ),
    gauge(
      'thing_agent_history_saved_bytes',
      'Not written for the attempts of the history: it was there.',
      sum(({ reusedBytes }) => reusedBytes),
    ),
    gauge(
      'thing_agent_history_from_base_bytes',
      'Not fetched for the attempts of the history: deltas made it of the slot that runs.',
      sum(({ deltaBaseBytes }) => deltaBaseBytes),
    ),
  ];
}

function boardMetrics({ boards }: StatusReport): readonly Family[] {
  return [
    info(
      'thing_agent_board',
      'Boards, and what was flashed last.',
      boards.map(({ name, protocol, chip, imageName }) => ({ board: name, protocol, chip, image: imageName })),
    ),
    gauge(
      'thing_agent_board_connected',
      'Whether the port of the board is there.',
      boards.map(({ name, connected }) => [{ board: name }, Number(connected)]),
    ),
    gauge(
      'thing_agent_board_partially_flashed',
      'Whether a write of the board began and has not ended.',
      boards.map(({ name, writing }) => [{ board: name }, Number(writing !== undefined)]),
    ),
  ];
}

/** The progress of the board that an update or a person is reading or writing. */
function flashMetrics({ activity }: StatusReport): readonly Family[] {
  const { board, doneBytes, totalBytes } = activity ?? {};
  const labels = board === undefined ? [] : [{ board }];
  return [
    gauge(
      'thing_agent_flash_done_bytes',
      'Of the board at work: what was read or written.',
      labels.map((label) => [label, doneBytes]),
    ),
    gauge(
      'thing_agent_flash_size_bytes',
      'Of the board at work: all that this step reads or writes.',
      labels.map((label) => [label, totalBytes]),
    ),
  ];
}

function unixSeconds(iso: string | undefined): number | undefined {
  return iso === undefined ? undefined : Date.parse(iso) / 1_000;
}
