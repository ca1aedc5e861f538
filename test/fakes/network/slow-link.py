#!/usr/bin/env python3
"""slow-link.py NEAR FAR: a wire `w0` between two network namespaces. Each line of the input is a new one-way delay in ms."""
import ctypes, fcntl, heapq, os, select, struct, sys, time

libc = ctypes.CDLL(None, use_errno=True)
home = os.open('/proc/self/ns/net', os.O_RDONLY)


def tun(namespace):
    there = os.open('/run/netns/' + namespace, os.O_RDONLY)
    assert libc.setns(there, 0) == 0
    device = os.open('/dev/net/tun', os.O_RDWR)
    fcntl.ioctl(device, 0x400454CA, struct.pack('16sH', b'w0', 0x1001))  # TUNSETIFF, IFF_TUN | IFF_NO_PI
    assert libc.setns(home, 0) == 0
    return device


ends = [tun(name) for name in sys.argv[1:3]]
other = {ends[0]: ends[1], ends[1]: ends[0]}
print('up', flush=True)
delay, count, waiting = 0.0, 0, []
while True:
    pause = max(0, waiting[0][0] - time.monotonic()) if waiting else None
    for source in select.select([*ends, 0], [], [], pause)[0]:
        if source == 0:
            line = sys.stdin.buffer.raw.readline()
            if line == b'':
                sys.exit()
            delay = float(line) / 1000
            continue
        count += 1
        heapq.heappush(waiting, (time.monotonic() + delay, count, other[source], os.read(source, 4096)))
    while waiting and waiting[0][0] <= time.monotonic():
        _, _, end, packet = heapq.heappop(waiting)
        try:
            os.write(end, packet)
        except OSError:
            pass
