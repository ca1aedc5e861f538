import * as z from 'zod';

/** The nine calls of interface.md, or any of them. */
export const operations = [
  'activate',
  'currentVersion',
  'targetVersion',
  'firmware',
  'updates',
  'switchTo',
  'property',
  'setProperty',
  'postDatapoints',
] as const;

export type Operation = (typeof operations)[number];

const bytes = z.number().int().nonnegative();

/**
 * Faults of one call. Without `afterBytes`, before the head of the reply; with it, after this number of bytes of the
 * body. The call still takes effect at the service, except for `status`, `body`, `redirect`, `page` and `huge`.
 */
export const faultSchema = z.discriminatedUnion('kind', [
  z
    .strictObject({
      kind: z.literal('status'),
      status: z.number().int().min(200).max(999),
      retryAfter: z.union([z.string(), z.number()]).optional(),
      body: z.string().optional(),
    })
    .describe('another status, with Retry-After and a body'),
  z
    .strictObject({
      kind: z.literal('body'),
      text: z.string(),
      status: z.number().int().optional(),
      headers: z.record(z.string(), z.string()).optional(),
    })
    .describe('this body instead'),
  z
    .strictObject({ kind: z.literal('redirect'), location: z.string(), status: z.number().int().optional() })
    .describe('a redirect'),
  z
    .strictObject({ kind: z.literal('page'), labeled: z.boolean().default(true) })
    .describe('a web page, as a captive portal answers, labeled as HTML or not'),
  z.strictObject({ kind: z.literal('huge'), bytes }).describe('a body of this number of bytes'),
  z.strictObject({ kind: z.literal('reset'), afterBytes: bytes.optional() }).describe('TCP reset'),
  z
    .strictObject({ kind: z.literal('truncate'), afterBytes: bytes.optional() })
    .describe('the connection is closed, although more was announced'),
  z.strictObject({ kind: z.literal('silence'), afterBytes: bytes.optional() }).describe('nothing more comes'),
  z
    .strictObject({ kind: z.literal('drip'), bytes: bytes.min(1), everyMs: z.number().int().min(1) })
    .describe('the body in small pieces, slowly'),
  z
    .strictObject({ kind: z.literal('wrong-length'), by: z.number().int() })
    .describe('a Content-Length that is wrong by this number of bytes'),
  z
    .strictObject({
      kind: z.literal('wrong-range'),
      firstBy: z.number().int().default(0),
      totalBy: z.number().int().default(0),
      text: z.string().optional(),
    })
    .describe('a Content-Range that is wrong by this number of bytes, or this text'),
  z.strictObject({ kind: z.literal('ignore-range') }).describe('the whole text despite a range request'),
  z.strictObject({ kind: z.literal('not-http'), text: z.string() }).describe('this instead of HTTP'),
  z.strictObject({ kind: z.literal('early-hints') }).describe('a reply 103 before the right one'),
  z
    .strictObject({ kind: z.literal('change-firmware'), at: bytes.default(0), keepEtag: z.boolean().default(false) })
    .describe('from this call on, this byte of the firmware is another one, under a new ETag or the old one'),
  z.strictObject({ kind: z.literal('drop-key') }).describe('another device has activated the same serial number'),
]);

export type Fault = z.infer<typeof faultSchema>;
export type FaultInput = z.input<typeof faultSchema>;

export const faultRuleSchema = z.strictObject({
  operation: z.enum([...operations, 'any']).default('any'),
  fault: faultSchema,
  /** Number of affected calls; `always` until the fault is cleared. */
  times: z.union([z.number().int().min(1), z.literal('always')]).default(1),
  /** Number of unaffected calls before that. */
  skip: z.number().int().min(0).default(0),
  /** Only calls that ask for a part of a text. */
  ranged: z.boolean().default(false),
});

export type FaultRule = z.input<typeof faultRuleSchema>;

interface ArmedRule {
  readonly operation: Operation | 'any';
  readonly fault: Fault;
  readonly ranged: boolean;
  skip: number;
  times: number;
}

/** Which fault strikes which call: rules in the order in which they were added; the first that matches is used up. */
export class FaultPlan {
  #rules: ArmedRule[] = [];

  add(input: FaultRule): void {
    const { times, ...rule } = faultRuleSchema.parse(input);
    this.#rules.push({ ...rule, times: times === 'always' ? Infinity : times });
  }

  clear(): void {
    this.#rules = [];
  }

  get pending(): readonly { readonly operation: string; readonly fault: Fault }[] {
    return this.#rules.map(({ operation, fault }) => ({ operation, fault }));
  }

  next(operation: Operation, isRanged: boolean): Fault | undefined {
    for (const rule of this.#rules) {
      if (rule.ranged && !isRanged) continue;
      if (rule.operation !== 'any' && rule.operation !== operation) continue;
      if (rule.skip > 0) {
        rule.skip -= 1;
        continue;
      }
      rule.times -= 1;
      if (rule.times <= 0) this.#rules = this.#rules.filter((other) => other !== rule);
      return rule.fault;
    }
    return undefined;
  }
}
