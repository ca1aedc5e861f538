import { expect, test } from 'vitest';

import { secretsOfConfig } from '../../../../src/daemon/support/gateway-secrets.ts';

const settings = `
[service]
url = "https://agent:p%2Fw@example.com"
client_key_file = "/k.pem"
ca_file = "/ca.pem"
messaging = { password_file = "/pw", url = "mqtts://b/?key=q%2F12&v=1" }
[[sensors]]
source = { kind = "exec", command = ["curl", "--token", "t1-word", "--api-key=k1-word", "Authorization: Bearer b1-word", "-s"] }
[unknown]
password = "h1dden"
`;

test('finds secrets in addresses, under secret names, and after secret options', () => {
  const { secrets, files } = secretsOfConfig(settings);
  expect(new Set(secrets)).toEqual(
    new Set(['p%2Fw', 'p/w', 'agent:p%2Fw', 'agent:p/w', 't1-word', 'k1-word', 'b1-word', 'h1dden', 'q%2F12', 'q/12']),
  );
  expect(files).toEqual(['/k.pem', '/pw']);
});

test.each(['p/w', 'p#w', 'p?w', 'p@w', 'p w', 'p"w'])('they are found unencoded in an address: %s', (password) => {
  const { secrets } = secretsOfConfig(`[service]\nurl = 'https://me:${password}@example.com/a'\n`);
  expect(secrets).toEqual(expect.arrayContaining([password, `me:${password}`]));
});

test('finds them also in a configuration that is not TOML', () => {
  const { secrets, files } = secretsOfConfig(`${settings}\npassword = "br0ken\n`);
  expect(secrets).toEqual(expect.arrayContaining(['p/w', 'h1dden', 'br0ken']));
  expect(files).toEqual(expect.arrayContaining(['/k.pem', '/pw']));
});
