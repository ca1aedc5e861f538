import { beforeAll, describe, expect, test } from 'vitest';

import { bootCuts, describeBooted, describeJudged, judgeCuts } from './campaign.ts';
import type { JudgedCuts } from './campaign.ts';
import type { Recording } from './recording.ts';
import { PATIENCE_MS, scenes } from './scenes.ts';
import type { Scene } from './scenes.ts';
import { recordingOf } from './stage.ts';

const CUTS = 300;
const BOOTS = 1;
const SEED = 1;
const TIMEOUT_MS = 2 * PATIENCE_MS;

/** `npm run boots -- --cuts N --boots N --seed S` does as many as wanted, of every scene. */
describe('a gateway that really boots', () => {
  let scene: Scene;
  let recording: Recording;
  let judged: JudgedCuts;

  beforeAll(async () => {
    const short = scenes['short'];
    if (short === undefined) throw new Error('there is no short scene');
    scene = short;
    recording = await recordingOf({ name: 'short', scene, bootType: 'ext4', isKept: true });
  }, TIMEOUT_MS);

  test('activates, downloads, installs, restarts, commits and tells the service', () => {
    const told = recording.happenings.flatMap((happening) =>
      happening.kind === 'known' ? [happening.thing.currentVersionId] : [],
    );
    expect(told.at(-1)).toBe('v2');
    expect(recording.cycles).toBe(2);
  });

  test('starts a whole image of a known version, whenever its power is cut', { timeout: TIMEOUT_MS }, async () => {
    judged = await judgeCuts(recording, { cuts: CUTS, seed: SEED });
    console.log(`seed ${SEED}: ${describeJudged(judged)}`);
    expect(judged.violations).toEqual({});
  });

  test('comes to rest on what its owner wants after a power cut', { timeout: TIMEOUT_MS }, async () => {
    const booted = await bootCuts(recording, scene, judged, { boots: BOOTS, seed: SEED });
    for (const one of booted) console.log(describeBooted(one));
    expect(booted.flatMap(({ violations }) => violations)).toEqual([]);
  });
});
