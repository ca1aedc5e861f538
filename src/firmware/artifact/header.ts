import * as z from 'zod';

import { parsedJsonBytes } from '../../system/json-value.ts';
import { VerificationError } from '../errors.ts';
import { quoted } from './refusal.ts';
import type { TarReader } from './tar/tar-reader.ts';

const MEMBER_LIMIT_BYTES = 256 * 1024;
const PAYLOADS_LIMIT = 16;

const keyValues = z.record(z.string(), z.string());
const constraint = z.union([z.string(), z.array(z.string())]);
const constraints = z.record(z.string(), constraint);

const versionSchema = z.object({ format: z.string(), version: z.number() });

const headerInfoSchema = z.strictObject({
  payloads: z
    .array(z.strictObject({ type: z.string().nullable() }))
    .min(1)
    .max(PAYLOADS_LIMIT),
  artifact_provides: z.object({ artifact_name: z.string().min(1) }).catchall(z.string()),
  artifact_depends: z.object({ device_type: z.array(z.string()).min(1) }).catchall(constraint),
});

const typeInfoSchema = z.strictObject({
  type: z.string().nullable(),
  artifact_provides: keyValues.nullish(),
  artifact_depends: constraints.nullish(),
  clears_artifact_provides: z.array(z.string()).nullish(),
});

/** The number of files that an artifact may have. */
const MAX_ORDERED = 256;

const prefixSchema = z.object({
  digest: z.string().regex(/^sha256:[0-9a-f]{64}$/),
  sizeBytes: z.int().positive(),
});

/** A delta without a target is for the partition that a `rootfs-image` goes to. */
const deltaSchema = z.object({ target: z.string().min(1).optional(), base: prefixSchema, result: prefixSchema });

/** Members with other names are ignored: the format leaves the content to the type of payload. */
const metaDataSchema = z.object({
  targets: keyValues.optional(),
  /**
   * Deltas by file. They are not in `targets`, so that an agent that knows no deltas refuses such a file instead of
   * installing it.
   */
  deltas: z.record(z.string(), deltaSchema).optional(),
  order: z.array(z.string()).max(MAX_ORDERED).optional(),
});

/** For each key, the values of which the gateway must provide one. */
export type Depends = Readonly<Record<string, readonly string[]>>;
export type Provides = Readonly<Record<string, string>>;

/**
 * Source: Mender Artifact format version 3, "header.tar": `header-info`, and for each payload `type-info` and
 * `meta-data`.
 */
export interface ArtifactDescription {
  readonly name: string;
  readonly provides: Provides;
  readonly depends: Depends;
  readonly payloads: readonly PayloadDescription[];
}

export interface PayloadDescription {
  readonly type: string | undefined;
  readonly provides: Provides;
  readonly depends: Depends;
  /** Patterns of provides that this payload removes from the gateway. */
  readonly clears: readonly string[];
  /** The name of the target of each file. Omitted if the meta-data names no targets. */
  readonly targets: ReadonlyMap<string, string> | undefined;
  /** The files that are deltas; none of them is in `targets`. */
  readonly deltas: ReadonlyMap<string, DescribedDelta>;
  /** Targets that are installed one after the other, in this order. */
  readonly order: readonly string[];
}

export type DescribedDelta = z.infer<typeof deltaSchema>;

/** Checks the content of the member `version`. */
export function requireVersion3(bytes: Uint8Array): void {
  const { format, version } = parseJson(bytes, 'version', versionSchema);
  if (format === 'mender' && version === 3) return;
  throw new VerificationError(
    'artifact-version',
    `artifact: format ${quoted(format)} version ${version} is not supported; only "mender" version 3 is`,
  );
}

/**
 * Reads the tar archive inside `header.tar`, whose members must be exactly those listed by the format, in its order.
 */
export async function readDescription(tar: TarReader): Promise<ArtifactDescription> {
  const first = await tar.next();
  if (first?.name !== 'header-info') throw unexpected(first?.name, 'header-info');
  const info = parseJson(await tar.read(MEMBER_LIMIT_BYTES), 'header-info', headerInfoSchema);

  const payloads: PayloadDescription[] = [];
  let member = await tar.next();
  for (const [index, { type }] of info.payloads.entries()) {
    const folder = `headers/${String(index).padStart(4, '0')}`;
    if (member?.name !== `${folder}/type-info`) throw unexpected(member?.name, `${folder}/type-info`);
    const typeInfo = parseJson(await tar.read(MEMBER_LIMIT_BYTES), member.name, typeInfoSchema);
    if (!isSameType(type, typeInfo.type)) throw malformed(member.name, 'it contradicts header-info about the type');
    member = await tar.next();
    let metaData: Uint8Array | undefined;
    if (member?.name === `${folder}/meta-data`) {
      metaData = await tar.read(MEMBER_LIMIT_BYTES);
      member = await tar.next();
    }
    payloads.push(describePayload({ ...typeInfo, type }, metaData, `${folder}/meta-data`));
  }
  if (member !== undefined) throw unexpected(member.name, undefined);
  return {
    name: info.artifact_provides.artifact_name,
    provides: info.artifact_provides,
    depends: listed(info.artifact_depends),
    payloads,
  };
}

/** True if the types agree. mender-artifact before 4.3.1 leaves the type of a rootfs-image empty in type-info. */
function isSameType(inHeaderInfo: string | null, inTypeInfo: string | null): boolean {
  return inTypeInfo === inHeaderInfo || (inHeaderInfo === 'rootfs-image' && inTypeInfo === '');
}

function describePayload(
  typeInfo: z.infer<typeof typeInfoSchema>,
  metaData: Uint8Array | undefined,
  metaDataName: string,
): PayloadDescription {
  const hasMetaData = metaData !== undefined && metaData.length > 0;
  const { targets, deltas = {}, order = [] } = hasMetaData ? parseJson(metaData, metaDataName, metaDataSchema) : {};
  return {
    type: typeInfo.type ?? undefined,
    provides: typeInfo.artifact_provides ?? {},
    depends: listed(typeInfo.artifact_depends ?? {}),
    // "Missing clears_provides is equivalent to ["*"]", mender, src/mender-update/context/context.cpp
    clears: typeInfo.clears_artifact_provides ?? ['*'],
    targets: targets === undefined ? undefined : new Map(Object.entries(targets)),
    deltas: new Map(Object.entries(deltas)),
    order,
  };
}

function listed(depends: z.infer<typeof constraints>): Depends {
  return Object.fromEntries(
    Object.entries(depends).map(([key, value]) => [key, typeof value === 'string' ? [value] : value]),
  );
}

function parseJson<T>(bytes: Uint8Array, memberName: string, schema: z.ZodType<T>): T {
  const value = parsedJsonBytes(bytes);
  if (value === undefined) throw malformed(memberName, 'it is not JSON');
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const path = issue === undefined || issue.path.length === 0 ? '' : `${quoted(issue.path.join('.'))}: `;
  throw malformed(memberName, `${path}${issue?.message ?? 'not as expected'}`);
}

function unexpected(name: string | undefined, wanted: string | undefined): VerificationError {
  if (name?.startsWith('scripts/') === true) {
    return new VerificationError(
      'artifact-scripts',
      `artifact: it carries the state script ${quoted(name)}, and this agent runs none`,
      'build the artifact without --script; use [update] health commands instead',
    );
  }
  const found = name === undefined ? 'its end' : quoted(name);
  return malformed('header', `${found} where ${wanted ?? 'its end'} should be`);
}

function malformed(memberName: string, why: string): VerificationError {
  return new VerificationError('artifact-malformed', `artifact, ${memberName}: ${why}`);
}
