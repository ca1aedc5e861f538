import { ConfigError } from '../../../src/config/errors.ts';
import { parseConfig } from '../../../src/config/read-config.ts';

/** The least that a configuration needs. */
export const leastConfig = `
[service]
url = "https://things.example.com"
[device]
device_type = "raspberrypi4-64"
`;

/** Every key of the core, as the design fixes them. */
export const wholeConfig = `
[service]
url = "https://things.example.com/"
transport = "rest"
key_on_provisioning = true
property_text = "plain"
max_rate = [{ window = "08:00-18:00", rate = "50KiB/s" }, { rate = "2MiB/s" }]
ca_file = "/etc/thing-agent/ca.pem"
client_certificate_file = "/etc/thing-agent/client.pem"
client_key_file = "/etc/thing-agent/client.key"

[service.timeouts]
connect = "3s"
first_byte = "4s"
idle = "5s"
total = "1m"
transfer = "1h30m"

[service.messaging]
url = "mqtts://broker.example.com:8883"
username = "gateway"
password_file = "/etc/thing-agent/password"
topic_id = "a1b2"
activate_topic = "v1.json"
request_topic = "v1.{topic_id}.json"
reply_topic = "v1.{topic_id}.reply.json"
protocol_version = 4
client_id = "gw1"
status_topic = "{topic_id}/status"
wake_topic = "wake"
keep_alive = "30s"
session_expiry = "2h"
request_timeout = "20s"
max_message = "512KiB"
firmware_transport = "messaging"

[device]
serial_number = "GW-0001"
device_type = "raspberrypi4-64"

[paths]
state = "/var/lib/thing-agent"

[update]
follow = "updates"
schedule = "*/15 * * * *"
splay = "10m"
select = "/^stable-/i"
window = "22:30-05:00"
reboot_window = "03:00-04:00"
metered = ["wwan*", "ppp0"]
full_image = "same"
default_target = "gateway"
encoding = "auto"
health = { deadline = "5m", commands = [["/usr/lib/app/healthy", "-q"]], units = ["app.service"], service = true }
max_attempts = 4
trial_attempts = 1
quarantine = "1d"

[hooks]
before_install = { command = ["/usr/lib/app/may-install", "-q"], user = "app", timeout = "20s" }

[trust]
keys = ["/etc/thing-agent/trust/release.pem"]
allow_unsigned = false
downgrade = "refuse"

[report]
outcome = "update_outcome"
full_image = "wanted_whole"

[system]
reboot_command = ["systemctl", "reboot"]

[control]
properties = ["setpoint"]

[web]
listen = "[::]:8443"
password_file = "/etc/thing-agent/web-password"
certificate_file = "/etc/thing-agent/web.pem"
key_file = "/etc/thing-agent/web.key"
client_ca_file = "/etc/thing-agent/web-clients.pem"
hosts = ["Gateway.example.com"]
allow_operations = true

[log]
level = "debug"
format = "json"

[targets.gateway]
kind = "slots"
slots = { A = "/dev/disk/by-partlabel/rootfs-a", B = "/dev/disk/by-partlabel/rootfs-b" }
bootloader = { kind = "uboot" }

[targets.meter]
kind = "mcu"
port = "/dev/serial/by-id/usb-1"
protocol = "stk500v1"
baud = 57600
reset = { command = ["/usr/bin/reset-meter"] }

[[sensors]]
event = "temperature"
every = "10s"
source = { kind = "hwmon", chip = "cpu_thermal", input = "temp1" }

[[properties]]
id = "uptime"
every = "5m"
source = { kind = "system", metric = "uptime" }
`;

/** Returns the problems of a text, each with its line: `3: service.url: …`. */
export function problemsOf(text: string): readonly string[] {
  return errorOf(text).problems.map(({ line, message }) => (line === undefined ? message : `${line}: ${message}`));
}

export function errorOf(text: string): ConfigError {
  try {
    parseConfig('config.toml', text);
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error('the text was accepted');
}
