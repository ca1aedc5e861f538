/** Differences between chips that a loader shows. */
export interface EspTraits {
  readonly magic: number;
  /** Reply to GET_SECURITY_INFO, or undefined if the ROM lacks it. */
  readonly securityInfo: Uint8Array | undefined;
  /** Inflates, digests, attaches, changes its baud rate. */
  readonly modern: boolean;
  readonly fifthWord: boolean;
  readonly spi: { readonly base: number; readonly user2: number; readonly data0: number };
  readonly fuses: ReadonlyMap<number, number>;
  readonly revision?: number | undefined;
  readonly securesBoot: boolean;
  /** In secure download mode. */
  readonly locked: boolean;
  /** A packet that comes a second time is taken a second time; else it is refused. The documentation does not say. */
  readonly takesTwice: boolean;
}

export type EspName = 'esp8266' | 'esp32' | 'esp32c3' | 'esp32s3';

/** The state of a chip's fuses, with its revision: 100 times the major and the minor number. */
export interface EspSecurity {
  readonly revision?: number | undefined;
  readonly locked?: boolean;
  readonly encrypted?: boolean;
  readonly securesBoot?: boolean;
}

const spiOfNew = { base: 0x6000_2000, user2: 0x20, data0: 0x58 } as const;

/** esptool documentation, "Serial Protocol" of each chip. */
export function espTraits(name: EspName, security: EspSecurity = {}, takesTwice = false): EspTraits {
  const { locked = false, encrypted = false, securesBoot = false, revision } = security;
  const fuses = revisionFuses(name, revision);
  const modern = { modern: true, locked, takesTwice, fuses, revision, securesBoot } as const;
  switch (name) {
    case 'esp8266':
      return {
        ...modern,
        magic: 0xfff0_c101,
        securityInfo: undefined,
        modern: false,
        fifthWord: false,
        spi: { base: 0x6000_0200, user2: 0x24, data0: 0x40 },
      };
    case 'esp32':
      return {
        ...modern,
        magic: 0x00f0_1d83,
        securityInfo: undefined,
        fifthWord: false,
        spi: { base: 0x3ff4_2000, user2: 0x24, data0: 0x80 },
        fuses: new Map([...fuses, [0x3ff5_a000, encrypted ? 1 << 20 : 0], [0x3ff5_a018, securesBoot ? 1 << 4 : 0]]),
      };
    case 'esp32c3':
      return { ...modern, magic: 0x1b31_506f, securityInfo: securityInfo(5, security), fifthWord: true, spi: spiOfNew };
    case 'esp32s3':
      return { ...modern, magic: 0x09, securityInfo: securityInfo(9, security), fifthWord: true, spi: spiOfNew };
  }
}

/** The fuses of the revision, and of the ESP32 a bit of its APB_CTRL_DATE: `get_chip_revision` of esptool. */
function revisionFuses(name: EspName, revision = 0): ReadonlyMap<number, number> {
  const [major, minor] = [Math.floor(revision / 100), revision % 100];
  const highest = 0x8000_0000;
  if (name === 'esp32') {
    return new Map([
      [0x3ff5_a00c, major >= 1 ? 1 << 15 : 0],
      [0x3ff5_a014, (minor << 24) | (major >= 2 ? 1 << 20 : 0)],
      [0x3ff6_607c, major >= 3 ? highest : 0x1604_2000],
    ]);
  }
  const block = name === 'esp32c3' ? 0x6000_8844 : 0x6000_7044;
  return new Map([
    [block + 12, (minor & 7) << 18],
    [block + 20, (major << 24) | ((minor >> 3) << 23)],
  ]);
}

/** Flags, count of encryption changes, purposes of seven keys, chip number, revision. */
export function securityInfo(chipId: number, { locked, encrypted, securesBoot }: EspSecurity): Uint8Array {
  const info = Buffer.alloc(20);
  info.writeUInt32LE((securesBoot === true ? 1 : 0) | (locked === true ? 4 : 0), 0);
  info.writeUInt8(encrypted === true ? 1 : 0, 4);
  info.writeUInt32LE(chipId, 12);
  return info;
}
