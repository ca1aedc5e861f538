/** A pattern of the language guide: an expression that native prose rarely contains, and the words to use instead. */
export interface Pattern {
  readonly id: string;
  readonly expression: RegExp;
  readonly instead: string;
}

const caseSensitive = new Set(['what-opens', 'seen', 'comment-opens', 'commit-opens']);

const rows: readonly (readonly [id: string, expression: string, instead: string])[] = [
  ['person', String.raw`\bpersons?\b`, 'you, an operator, "manually"'],
  ['nobody', String.raw`\bnobody\b`, 'no one; better: name the actor'],
  ['somebody', String.raw`\bsomebody\b|\bwhoever\b`, 'the caller, a user, an attacker'],
  ['says', String.raw`\b(says|said)\b`, 'shows, reports, prints, contains'],
  ['told', String.raw`\b(told|tells of|is to tell)\b`, 'reported to, notified, sent'],
  [
    'look',
    String.raw`\b(a|the|next|each|last|this|one|every|more|few|many|\d+) looks?\b(?! (and|like|at|up|into))`,
    'check',
  ],
  ['goes-on', String.raw`\b(go|goes|going|went|gone) on\b(?! (sale|the|a|this))`, 'continues, resumes'],
  ['by-itself', String.raw`\bby (itself|themselves)\b`, 'automatically, on its own'],
  ['gives-up', String.raw`\b(gives?|given|gave|giving) (it |them |that )?up\b`, 'stops retrying, discards, aborts'],
  ['beside', String.raw`\bbeside\b`, 'next to, besides, with'],
  ['anew', String.raw`\banew\b`, 'again, from the start'],
  ['mend', String.raw`\bmend(s|ed|ing)?\b|\bcur(es?|ed|able)\b`, 'fix; retryable'],
  ['but-for', String.raw`\b(but for|nothing but|no \w+ but|none but|all but)\b`, 'except, only'],
  [
    'stands',
    String.raw`\bstands? (in|on|there|at|beside|before|where|with|alone|here|once)\b|\bstood\b`,
    'is in, is listed in, was',
  ],
  ['lies', String.raw`\b(lies|lay) (in|on|beside|there|outside|below|at|where|with)\b|\blies\b`, 'is in, is stored in'],
  ['begin', String.raw`\b(the|its|a) begin\b|\bbegin of\b`, 'start, beginning'],
  ['of-yours', String.raw`\bof (yours|theirs|ours)\b`, 'your own'],
  [
    'is-no',
    String.raw`(?<!there )\b(is|are|was|were) (no|none)\b(?! (longer|more|need|way|such|guarantee|different|other))`,
    'is not a',
  ],
  ['any-more', String.raw`\bany more\b(?! \w+s\b)`, 'no longer'],
  ['at-once', String.raw`(?<!all )\bat once\b`, 'immediately; at the same time'],
  ['under-way', String.raw`\bunder way\b`, 'in progress, running'],
  ['in-place-of', String.raw`\bin (the |its |their )?place (of|there)\b|\bin (its|their) place\b`, 'instead of'],
  [
    'what-was',
    String.raw`\b(what|whatever) (was|were|stood|runs|ran|came|comes|waits|waited|holds|belongs|lies|failed|ended|follows|goes|cannot|nobody|keeps|kept|had)\b`,
    'a noun: the previous version',
  ],
  [
    'of-what',
    String.raw`\b(with|for|of|from|by|behind|after|before|than|beside|and|but|or) (what|whatever)\b(?! (is|to|you|we|if|happens))`,
    'a noun',
  ],
  [
    'what-opens',
    String.raw`(^|[.;:|] )(Who|Whoever|Whose|Whatever|What (is|was|a|an|the|it|they|this|runs|has|comes|cannot|no)) [^?|]{8,}[.;](?= |$)`,
    'start with the subject',
  ],
  [
    'who-asks',
    String.raw`\bwho (asks|speaks|hangs|breaks|wants|floods|reads|writes|waits|has broken|types|reboots)\b`,
    'the caller, the client',
  ],
  ['list-of-keys', String.raw`\blists? of (keys|revocations)\b`, 'trust list'],
  [
    'one-that',
    String.raw`\b(one|ones|those|that) (that|which|who) (is|was|are|were|has|have|cannot|can|runs|does|did|had|will|could|must|comes|came|went|ends|ended|failed|speaks)\b`,
    'repeat the noun',
  ],
  ['that-of', String.raw`\b(that|those) of\b`, "repeat the noun, or use 's"],
  ['undefined', String.raw`\bundefined: `, 'Omitted if …; or a union'],
  [
    'so-many',
    String.raw`\bso (many|much|long|often)\b(?!,? (as|that|time|you|we|it|the|more|easier))`,
    'the number of, for N s',
  ],
  ['badly', String.raw`\b(ends?|ended|ending|goes|went|go) (well|badly)\b`, 'succeeded, failed'],
  ['is-asked', String.raw`\b(is|are|was|were|be|been) asked\b(?! (to|for your))`, 'is queried, is called, prompts'],
  [
    'a-firmware',
    String.raw`\b(a|each|every|another|one|no|which|any) (new |older |signed |staged |whole |bad |former )?firmware\b(?![ -](image|images|update|updates|version|file|package|artifact|release|upgrade|revision|build|partition|download|operation|transfer|payload|binary|blob|slot|entry|type|and|name|management|plugin|repository|fix|or))`,
    'a firmware image, a release',
  ],
  [
    'was-cut',
    String.raw`\b(is|was|were|be|been|being|are) cut\b(?! (and|from|out))|\bcuts? (that|by|in|at)\b`,
    'interrupted; lost power',
  ],
  [
    'held-back',
    String.raw`\b(held|holds?|holding|keeps?|kept) (it |them |updates? |an update )?back\b`,
    'deferred, blocked',
  ],
  [
    'goes-back',
    String.raw`\b(goes|go|going|went|gone) back\b(?! (to the|and|a |to step|in |through))|\bway back\b`,
    'rolls back, falls back',
  ],
  ['not-answer', String.raw`\b(does|did|do) not answer\b`, 'is not responding, timed out'],
  ['not-known', String.raw`\b(is|are|was|were) not known\b`, 'is unknown'],
  ['no-end', String.raw`\bwithout an end\b|\bto (its|the|their) end\b`, 'endless; completely, to EOF'],
  [
    'not-come',
    String.raw`\b(do|does|did) not come\b|\bcannot be understood\b|\bends too early\b`,
    'was not received; is truncated',
  ],
  ['other-side', String.raw`\bthe other side\b`, 'the peer, the server'],
  ['seen', String.raw`\bSeen( in| on| while| with)?:? `, 'Regression: …'],
  ['meanwhile', String.raw`\bmeanwhile\b`, 'in the meantime, while …'],
  [
    'commit-opens',
    String.raw`^[a-z\/, ]+: (a|an|the|what|who|whoever|where|whether|why|how|one|two|no|nothing|each|every|that|those|its|of|whatever|whose)\b`,
    'imperative verb',
  ],
  [
    'comment-opens',
    String.raw`^(What|Whether|Of|Those|Where|Why|How (long|often|many|much|far)|So (many|much|long)|Who|Whose|Undefined)\b`,
    '"Returns…", "True if…",, or a noun',
  ],
];

export const patterns: readonly Pattern[] = rows.map(([id, expression, instead]) => ({
  id,
  expression: new RegExp(expression, caseSensitive.has(id) ? 'g' : 'gi'),
  instead,
}));
