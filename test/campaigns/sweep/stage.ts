import { Catalog } from './gateway/catalog.ts';
import type { CatalogData, Form } from './gateway/catalog.ts';
import type { Case, Script } from './life.ts';
import { play, playPrologue, playToCut } from './play.ts';
import type { Bookmark, Played } from './play.ts';
import { scenarioNamed } from './scenarios.ts';
import { Violation } from './violation.ts';

/** Plays cases. What many of them have in common is played once. */
export class Stage {
  readonly #catalogs: Readonly<Record<Form, Catalog>>;
  readonly #prologues = new Map<string, Bookmark>();

  constructor(data: CatalogData) {
    this.#catalogs = {
      artifact: new Catalog(data, 'artifact'),
      pairs: new Catalog(data, 'pairs'),
      image: new Catalog(data, 'image'),
    };
  }

  async play(given: Case): Promise<Played> {
    return play(this.#script(given), await this.#prologue(given.scenario));
  }

  /** Nothing goes wrong. */
  async rehearse(scenario: string): Promise<Played> {
    return this.play({ scenario, seed: 1, cuts: [], faults: [] });
  }

  /** Cases that share the first interruption. Undefined if it comes too late, or violates an invariant alone. */
  async cutOnce(given: Case): Promise<((continued: Case) => Promise<Played>) | undefined> {
    const from = await this.#prologue(given.scenario);
    const bookmark = await playToCut(this.#script(given), from).catch((error: unknown) => {
      if (!(error instanceof Violation)) throw error;
    });
    return bookmark === undefined ? undefined : (continued) => play(this.#script(continued), bookmark);
  }

  /** The same case with fewer cuts and faults, as long as it still breaks a promise. */
  async shrink(given: Case): Promise<Case> {
    for (const smaller of smallerCases(given)) {
      if ((await this.play(smaller)).violation !== undefined) return this.shrink(smaller);
    }
    return given;
  }

  #script(given: Case): Script {
    const scenario = scenarioNamed(given.scenario);
    return { scenario, given, catalog: this.#catalogs[scenario.form] };
  }

  async #prologue(scenario: string): Promise<Bookmark> {
    const known = this.#prologues.get(scenario);
    if (known !== undefined) return known;
    const bookmark = await playPrologue(this.#script({ scenario, seed: 1, cuts: [], faults: [] }));
    this.#prologues.set(scenario, bookmark);
    return bookmark;
  }
}

function smallerCases(given: Case): readonly Case[] {
  const { scenario, seed, cuts, faults } = given;
  return [
    ...faults.map((fault) => ({ scenario, seed, cuts, faults: faults.filter((other) => other !== fault) })),
    ...cuts.map((cut) => ({ scenario, seed, cuts: cuts.filter((other) => other !== cut), faults })),
  ];
}
