import { gatewayStates, idleCodes, problems } from '../gateway-state.ts';
import type { HistoryReport } from '../history.ts';
import type { AgentOperations } from '../operations.ts';
import type { StatusReport } from '../reports.ts';
import { counter, gauge, info, stateSet } from './family.ts';
import type { Family } from './family.ts';
import { telemetryMetrics } from './telemetry-metrics.ts';

/** Returns all metrics, derived from `status` and `history`. */
export async function agentMetrics(
  agent: Pick<AgentOperations, 'status' | 'history'>,
  signal: AbortSignal,
): Promise<readonly Family[]> {
  return metricsOf(await agent.status({}, signal), await agent.history({}, signal));
}

/**
 * Returns the metrics of a status and a history. Label values come from closed sets, the configuration or a release,
 * and never identify the gateway. Pure.
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
    stateSet('thing_agent_state', 'State of the gateway.', gatewayStates, state === undefined ? undefined : [state]),
    stateSet('thing_agent_problem', 'Problems of the gateway.', problems, found),
    stateSet(
      'thing_agent_idle_reason',
      'Reason for not installing anything.',
      idleCodes,
      idleCode === undefined ? undefined : [idleCode],
    ),
    gauge('thing_agent_hold_active', 'Whether updates are on hold.', Number(hold !== undefined)),
    gauge('thing_agent_warnings', 'Settings and findings that weaken a guarantee.', warnings.length),
  ];
}

function updateMetrics(status: StatusReport): readonly Family[] {
  const { installed, slotStates, booted, activity, service, checks, throttle } = status;
  const slots = Object.entries(slotStates ?? {});
  const ofTransfer = activity?.phase === 'staging' ? activity : undefined;
  return [
    info(
      'thing_agent_firmware',
      'Installed firmware version.',
      installed === undefined ? [] : [{ slot: installed.slot, version: installed.versionName }],
    ),
    gauge(
      'thing_agent_slot_bootable',
      'Whether the bootloader may boot the slot.',
      slots.map(([slot, { bootable }]) => [{ slot }, Number(bootable)]),
    ),
    gauge(
      'thing_agent_slot_booted',
      'Whether the slot is running.',
      booted === undefined ? [] : slots.map(([slot]) => [{ slot }, Number(slot === booted)]),
    ),
    gauge('thing_agent_transfer_received_bytes', 'Downloaded bytes of the current update.', ofTransfer?.doneBytes),
    gauge('thing_agent_transfer_size_bytes', 'Total bytes of the current update.', ofTransfer?.totalBytes),
    gauge('thing_agent_transfer_limit_bytes_per_second', 'Current rate limit of downloads.', throttle?.bytesPerSecond),
    gauge('thing_agent_quarantined_versions', 'Versions in quarantine.', status.quarantine.length),
    gauge(
      'thing_agent_service_last_contact_timestamp_seconds',
      'Time of the last successful call to the service.',
      unixSeconds(service.lastContactAt),
    ),
    gauge(
      'thing_agent_last_successful_check_timestamp_seconds',
      'Time of the last successful update check.',
      unixSeconds(checks?.lastSuccessAt),
    ),
    gauge(
      'thing_agent_consecutive_failed_checks',
      'Failed update checks since the last successful one.',
      checks?.consecutiveFailures,
    ),
    gauge(
      'thing_agent_next_check_timestamp_seconds',
      'Time of the next update check.',
      unixSeconds(status.nextCheckAt),
    ),
    gauge(
      'thing_agent_reports_pending',
      'Results of attempts that are not yet reported to the service.',
      status.pendingReports,
    ),
    gauge('thing_agent_reports_dropped', 'Results of attempts that were dropped.', status.droppedReports),
  ];
}

function trafficMetrics({ traffic }: StatusReport): readonly Family[] {
  return [
    counter(
      'thing_agent_service_received_bytes',
      'Bytes received from the service since the daemon started.',
      traffic?.sinceStart.receivedBytes,
    ),
    counter(
      'thing_agent_service_sent_bytes',
      'Bytes sent to the service since the daemon started.',
      traffic?.sinceStart.sentBytes,
    ),
  ];
}

/** The results of attempts. A later agent may add others. */
const outcomes = ['installed', 'failed', 'refused', 'rolled-back'] as const;

/**
 * The history discards old attempts: sums over it may fall and are gauges. The number of attempts is a counter, since
 * the history records how many were discarded.
 */
function historyMetrics({ attempts, discarded }: HistoryReport): readonly Family[] {
  const sum = (bytes: (attempt: HistoryReport['attempts'][number]) => number | undefined): number =>
    attempts.reduce((total, attempt) => total + (bytes(attempt) ?? 0), 0);
  const ended = (outcome: string): number => attempts.filter((attempt) => attempt.outcome === outcome).length;
  return [
    counter('thing_agent_update_attempts', 'Update attempts.', discarded + attempts.length),
    gauge(
      'thing_agent_history_attempts',
      'Attempts in the history, by result.',
      outcomes.map((outcome) => [{ outcome }, ended(outcome)]),
    ),
    gauge(
      'thing_agent_history_fetched_bytes',
      'Bytes downloaded by the attempts in the history.',
      sum(({ fetchedBytes }) => fetchedBytes),
    ),
    gauge(
      'thing_agent_history_written_bytes',
      'Bytes written by the attempts in the history.',
      sum(({ writtenBytes }) => writtenBytes),
    ),
    gauge(
      'thing_agent_history_saved_bytes',
      'Bytes that the attempts in the history did not write, since they were already there.',
      sum(({ reusedBytes }) => reusedBytes),
    ),
    gauge(
      'thing_agent_history_from_base_bytes',
      'Bytes that deltas took from the running slot, for the attempts in the history.',
      sum(({ deltaBaseBytes }) => deltaBaseBytes),
    ),
  ];
}

function boardMetrics({ boards }: StatusReport): readonly Family[] {
  return [
    info(
      'thing_agent_board',
      'Boards and the image flashed last.',
      boards.map(({ name, protocol, chip, imageName }) => ({ board: name, protocol, chip, image: imageName })),
    ),
    gauge(
      'thing_agent_board_connected',
      'Whether the port of the board exists.',
      boards.map(({ name, connected }) => [{ board: name }, Number(connected)]),
    ),
    gauge(
      'thing_agent_board_partially_flashed',
      'Whether a write of the board started and has not ended.',
      boards.map(({ name, writing }) => [{ board: name }, Number(writing !== undefined)]),
    ),
  ];
}

/** Returns the progress of the board that is being read or written. */
function flashMetrics({ activity }: StatusReport): readonly Family[] {
  const { board, doneBytes, totalBytes } = activity ?? {};
  const labels = board === undefined ? [] : [{ board }];
  return [
    gauge(
      'thing_agent_flash_done_bytes',
      'Bytes read or written of the active board.',
      labels.map((label) => [label, doneBytes]),
    ),
    gauge(
      'thing_agent_flash_size_bytes',
      'Total bytes of the current step of the active board.',
      labels.map((label) => [label, totalBytes]),
    ),
  ];
}

function unixSeconds(iso: string | undefined): number | undefined {
  return iso === undefined ? undefined : Date.parse(iso) / 1_000;
}
