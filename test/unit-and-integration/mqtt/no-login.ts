import type { BrokerLogin } from '../../../src/mqtt/open-broker.ts';

/** The settings of a broker that wants neither password nor certificate. */
export const noLogin = {
  username: undefined,
  passwordFile: undefined,
  caFile: undefined,
  clientCertificateFile: undefined,
  clientKeyFile: undefined,
} satisfies Omit<BrokerLogin, 'url'>;
