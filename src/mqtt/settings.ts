import { tlsFiles } from '../system/settings/tls-files.ts';
import { absolutePath, text } from '../system/settings/values.ts';

/** How the agent logs in to a broker: the service's, and the brokers of sensors and watches. */
export const brokerLogin = {
  username: text()
    .optional()
    .meta({ description: 'User name at the broker', examples: ['GW-0001'] }),
  password_file: absolutePath('/etc/thing-agent/mqtt-password', 'secret')
    .optional()
    .describe('File with the password at the broker'),
  ...tlsFiles('broker-'),
};

/** A topic that messages are published to. */
export const topic = () => text('a topic without wildcards').regex(/^[^#+\0]+$/, 'a topic without wildcards');

/** MQTT 3.1.1, section 4.7.1: brokers close the connection without a word when they get another filter. */
export const topicFilter = () => {
  const what = 'a topic whose levels are names or +, and whose last level may be #';
  return text(what).regex(/^(?:#|(?:\+|[^+#/\0]*)(?:\/(?:\+|[^+#/\0]*))*(?:\/#)?)$/, what);
};
