import { absolutePath } from './values.ts';

/** The files of a TLS connection. `whose`: the start of their names in examples. */
export const tlsFiles = (whose: string) => ({
  ca_file: absolutePath(`/etc/thing-agent/${whose}ca.pem`, 'authorities')
    .optional()
    .describe(
      'PEM file of the certificate authorities to trust. The default is Mozilla’s list, which is built into ' +
        'Node.js. For the list of this system (update-ca-certificates), set /etc/ssl/certs/ca-certificates.crt',
    ),
  client_certificate_file: absolutePath(`/etc/thing-agent/${whose}client.pem`, 'certificates')
    .optional()
    .describe('PEM file of this gateway’s certificate, for mutual TLS'),
  client_key_file: absolutePath(`/etc/thing-agent/${whose}client.key`, 'secret')
    .optional()
    .describe('PEM file of the private key of this certificate'),
});
