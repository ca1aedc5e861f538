import type { OnEvent, OperationOutcome } from '../../control/events.ts';
import type { InputOf } from '../../control/operations.ts';
import type { BoardFile, BoardRoom, KeptOfBoard } from '../../daemon/wiring/board-room.ts';
import { helperVerbs } from '../verbs.ts';
import type { HelperClient } from './helper-client.ts';
import type { AgentPorts } from './port-server.ts';

/** Stands for the `KeptBoards` of the helper. */
export class RemoteBoards implements BoardRoom {
  readonly #client: HelperClient;
  readonly #ports: AgentPorts;
  readonly #hasBoards: boolean;

  constructor(client: HelperClient, ports: AgentPorts, hasBoards: boolean) {
    this.#client = client;
    this.#ports = ports;
    this.#hasBoards = hasBoards;
  }

  async kept(): Promise<ReadonlyMap<string, KeptOfBoard>> {
    return new Map(Object.entries((await this.#client.ask(helperVerbs.boards, {})).boards));
  }

  async flash(
    { board, keep, allowDowngrade }: Omit<InputOf<'flash'>, 'path'>,
    { name, source }: BoardFile,
    onEvent: OnEvent,
    signal: AbortSignal,
  ): Promise<OperationOutcome> {
    const ports = { ...this.#ports, file: source };
    const order = { board, name, keep, allowDowngrade };
    return this.#client.order(helperVerbs.flashBoard, order, { ports, onEvent }, signal);
  }

  async restore(board: string, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> {
    return this.#client.order(helperVerbs.restoreBoard, { board }, { ports: this.#ports, onEvent }, signal);
  }

  async heal(onEvent: OnEvent, signal: AbortSignal): Promise<void> {
    if (!this.#hasBoards) return;
    await this.#client.order(helperVerbs.healBoards, {}, { ports: this.#ports, onEvent }, signal);
  }
}
