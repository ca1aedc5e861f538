import { absolutePath } from './values.ts';

/** The files of a TLS connection. `whose`: the start of their names in examples. */
export const tlsFiles = (whose: string) => ({
  ca_file: absolutePath(`/etc/thing-agent/${whose}ca.pem`, 'certificates')
    .optional()
    .describe(
      'Authorities to trust instead of Mozilla’s, which come with the runtime. The system’s certificates, including those added by update-ca-certificates, are not read:' +
        ' /etc/ssl/certs/ca-certificates.crt takes them. A certificate of this gateway, and its key',
    ),
  client_certificate_file: absolutePath(`/etc/thing-agent/${whose}client.pem`, 'certificates').optional(),
  client_key_file: absolutePath(`/etc/thing-agent/${whose}client.key`, 'secret').optional(),
});
