import { readFileSync } from 'node:fs';

import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { howMuch } from '../../full.ts';
import { bootCuts, describeBooted, describeJudged, judgeCuts } from './campaign.ts';
import type { JudgedCuts } from './campaign.ts';
import type { Recording } from './disk/recording.ts';
import { boardMemoryAt, PROGRAM_BYTES } from './gateways/gateway-board.ts';
import { openRig } from './gateways/rigs.ts';
import type { Rig } from './gateways/rigs.ts';
import { sceneNamed } from './scenes.ts';
import { recordingOf } from './stage.ts';

const CUTS = howMuch(200, 60);
const BOOTS = 1;
const SEED = 1;
/** A recording takes 15 s; so does a cut until it is at rest, and again until it has taken an update. */
const DEADLINE_MS = 700_000;
/** A call to the service that fails is repeated after pauses that grow; nothing is promised about how long this takes. */
const REST_MS = 300_000;

/** On a small gateway that this machine plays; `npm run boots` does the same with one that boots. */
describe(`the disk of a gateway whose power fails, seed ${SEED}`, () => {
  const scene = sceneNamed('together');
  let rig: Rig;
  let recording: Recording;
  let judged: JudgedCuts;

  beforeAll(async () => {
    rig = await openRig({ machine: 'loop', bootType: 'ext4' });
    recording = await recordingOf({ name: 'together', scene, rig, isKept: false });
  }, DEADLINE_MS);

  afterAll(async () => rig[Symbol.asyncDispose]());

  const programOf = (version: string): Buffer => readFileSync(recording.boards[version] ?? '');

  test('records a whole update of two partitions and a board, as the service knows it', () => {
    const told = recording.happenings.flatMap((happening) =>
      happening.kind === 'known' ? [happening.thing.currentVersionId] : [],
    );
    expect([...new Set(told)]).toEqual(['v1', 'v2']);
    expect(recording.cycles).toBe(2);
    const end = recording.events.at(-1)?.position ?? 0;
    expect(boardMemoryAt(recording, end)?.subarray(0, PROGRAM_BYTES)).toEqual(programOf('v2'));
    expect(boardMemoryAt(recording, 0)?.subarray(0, PROGRAM_BYTES)).toEqual(programOf('v1'));
    expect(recording.events.filter(({ kind }) => kind === 'flush').length).toBeGreaterThan(20);
  });

  test('lets GRUB start a whole image of a known version, at any instant', { timeout: DEADLINE_MS }, async () => {
    judged = await judgeCuts(recording, { cuts: CUTS, seed: SEED });
    console.log(`seed ${SEED}: ${describeJudged(judged)}`);
    expect(judged.violations).toEqual({});
  });

  test(
    'comes to rest on one version in both partitions and on the board, and takes the next update',
    { timeout: DEADLINE_MS },
    async () => {
      const { openGateway, startBoard } = rig;
      const deadlineMs = REST_MS;
      const booted = await bootCuts(recording, scene, judged, {
        boots: BOOTS,
        seed: SEED,
        openGateway,
        startBoard,
        deadlineMs,
      });
      for (const one of booted) console.log(describeBooted(one));
      // with its console, since of a gate often only the end is kept
      expect(booted.filter(({ violations }) => violations.length > 0).map(describeBooted)).toEqual([]);
    },
  );
});
