import type { AgentOperations } from '../operations.ts';

/** Calls an operation by its name. The compiler cannot follow the types of the table through an external name. */
export async function callOperation<Output>(
  operations: AgentOperations,
  name: string,
  ...input: readonly unknown[]
): Promise<Output> {
  const all: Readonly<Record<string, unknown>> = operations;
  const operation = all[name];
  if (!isOperation<Output>(operation)) throw new TypeError(`unknown operation ${name}`);
  return operation.call(operations, ...input);
}

type Method<Output> = (this: AgentOperations, ...input: readonly unknown[]) => Promise<Output>;

function isOperation<Output>(value: unknown): value is Method<Output> {
  return typeof value === 'function';
}
