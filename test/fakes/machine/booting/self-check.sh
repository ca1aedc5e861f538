#!/bin/sh
# Checks a system that has started: prints "*** self-check: ok", or what does not work. NAME is a host name to resolve.
systemctl is-system-running --wait >/dev/null
problems=''
for unit in $(systemctl --failed --no-legend --plain | cut -d ' ' -f 1); do problems="$problems $unit failed;"; done
if ! getent ahosts "${NAME:-localhost}" >/dev/null; then problems="$problems ${NAME:-localhost} has no address;"; fi
# The clock of a container is the clock of the machine.
if ! systemd-detect-virt --quiet --container && ! date -s "@$(date +%s)" >/dev/null; then problems="$problems the clock cannot be set;"; fi
echo "*** self-check:${problems:- ok}"
