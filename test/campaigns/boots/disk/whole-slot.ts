import type { Survivor } from './cut.ts';
import { partitionOf } from './recording.ts';
import type { Partition, RecordingFacts } from './recording.ts';
import { KnownImages, SlotContent } from './slot-content.ts';

/** A partition of a slot. */
export interface SlotPart {
  readonly area: Partition;
  readonly known: KnownImages;
  readonly content: SlotContent;
}

/** A slot of one partition, or of two that belong together: it holds a version where each of them holds it. */
export class WholeSlot {
  readonly name: 'A' | 'B';
  readonly #parts: readonly SlotPart[];

  private constructor(name: 'A' | 'B', parts: readonly SlotPart[]) {
    this.name = name;
    this.#parts = parts;
  }

  /** Both slots of a disk. */
  static both(
    disk: string,
    recording: Pick<RecordingFacts, 'partitions' | 'images' | 'kernels'>,
  ): readonly WholeSlot[] {
    const kinds = [{ kind: 'rootfs', known: new KnownImages(recording.images) }];
    if (Object.keys(recording.kernels).length > 0) {
      kinds.push({ kind: 'kernel', known: new KnownImages(recording.kernels) });
    }
    return (['A', 'B'] as const).map((name) => {
      const parts = kinds.map(({ kind, known }) => {
        const area = partitionOf(recording, `${kind}-${name.toLowerCase()}`);
        return { area, known, content: new SlotContent(disk, area, known) };
      });
      return new WholeSlot(name, parts);
    });
  }

  /** The versions whose images are in all of its partitions, byte for byte. */
  get whole(): readonly string[] {
    const [first = [], ...others] = this.#parts.map(({ content }) => content.whole);
    return first.filter((version) => others.every((versions) => versions.includes(version)));
  }

  partOf({ event }: Survivor): SlotPart | undefined {
    return this.#parts.find(({ area }) => event.sector >= area.sector && event.sector < area.sector + area.sectors);
  }

  takeAway(): void {
    for (const { content } of this.#parts) content.takeAway();
  }
}
