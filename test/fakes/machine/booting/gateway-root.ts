import type { DebianRecipe } from './debian.ts';

const drivers = [
  'drivers/virtio',
  'drivers/net/virtio_net.ko',
  'drivers/net/net_failover.ko',
  'net/core/failover.ko',
  'fs/fat',
  'fs/nls',
];

/** Rules of udev that name disks, partitions and the network card. */
const rules = ['50-udev-default', '60-block', '60-persistent-storage.rules', '80-drivers', '80-net', '99-systemd'];

/** Packages that README.md and the bootloader require, without the kernel. */
export const gatewayPackages = [
  'systemd-sysv',
  'udev',
  'kmod',
  'libstdc++6',
  'util-linux',
  'e2fsprogs',
  'dosfstools',
  'grub-common',
];

/** Shell commands in the root file system, the first of all: the kernel in one place, and of its modules these alone. */
export const kernelAlone = String.raw`
    set -e
    cp -L boot/vmlinuz-* vmlinuz.new && rm -rf boot/* initrd.img* vmlinuz vmlinuz.old && mv vmlinuz.new vmlinuz
    version=$(ls usr/lib/modules) && mkdir kept
    (cd usr/lib/modules/$version/kernel && cp -r --parents ${drivers.join(' ')} /$OLDPWD/kept/)
    rm -rf usr/lib/modules/$version/kernel && mv kept usr/lib/modules/$version/kernel
    chroot . depmod $version
`;

/** Returns the systemd units and udev rules that a gateway needs. */
export function unitsInUse(rulesOfPackages: readonly string[]): string {
  return String.raw`    mkdir -p etc/systemd/system/multi-user.target.wants
    ln -sf /usr/lib/systemd/system/systemd-networkd.service etc/systemd/system/multi-user.target.wants/
    find usr/lib/systemd/system-generators -type f ! -name systemd-fstab-generator -delete
    rm -f usr/lib/systemd/system/sysinit.target.wants/*.automount usr/lib/systemd/system/sysinit.target.wants/*.mount
    rm -rf usr/lib/systemd/system/modprobe@* etc/systemd/system/timers.target.wants usr/lib/systemd/system/timers.target.wants
    (cd usr/lib/udev/rules.d && ls | grep -Ev '${[...rules, ...rulesOfPackages].join('|')}' | xargs rm)
`;
}

/** Returns shell commands that remove unused files from the root file system. */
export function slimming(triplet: string, more = '', rulesOfPackages: readonly string[] = []): string {
  const programs = String.raw`    rm -rf usr/share/perl* usr/lib/${triplet}/perl* usr/lib/${triplet}/gconv usr/lib/${triplet}/libperl*
    rm -rf usr/bin/perl* usr/share/grub usr/lib/udev/hwdb* var/lib/dpkg var/lib/apt var/cache/* usr/share/zsh usr/lib/grub
    find usr/bin usr/sbin -name 'grub-*' ! -name grub-editenv -delete
    rm -f usr/bin/localedef usr/sbin/ldconfig usr/lib/${triplet}/libfreetype* usr/bin/dpkg*
`;
  return `${kernelAlone}${programs}${unitsInUse(rulesOfPackages)}${more}    true
  `;
}

/**
 * The kernel prefers another address (`pref_address` of the Linux/x86 boot protocol), where it is also read to: GRUB of a BIOS
 * would move its 52 MiB byte by byte, and the kernel unpacks itself to the same place as ever.
 */
export const kernelWhereItIsRead = String.raw`    printf '\000\000\020\000' | dd of=vmlinuz bs=1 seek=600 conv=notrunc status=none
`;

/**
 * A gateway's root file system: Debian's kernel, which has NVMe and ext4 built in and needs no initrd, systemd, and the
 * requirements of README.md and the bootloader. Unused files are removed, because an emulated machine copies each byte
 * slowly.
 */
export const debian: DebianRecipe = {
  packages: [...gatewayPackages, 'linux-image-cloud-amd64'],
  finish: slimming('x86_64-linux-gnu', kernelWhereItIsRead),
};

const masked = [
  'e2scrub_reap.service',
  'getty-static.service',
  'getty@tty1.service',
  'systemd-binfmt.service',
  'systemd-fsckd.socket',
  'systemd-initctl.socket',
  'systemd-journald-audit.socket',
  'systemd-logind.service',
  'systemd-modules-load.service',
  'systemd-pcrphase.service',
  'systemd-pcrphase-sysinit.service',
  'systemd-pstore.service',
  'systemd-random-seed.service',
  'systemd-sysctl.service',
  'systemd-update-utmp.service',
  'systemd-user-sessions.service',
];

export const files: Readonly<Record<string, string>> = {
  '/etc/fstab': '',
  '/etc/hostname': 'gateway\n',
  // An emulated machine's half hour would be a long one.
  '/etc/systemd/system/thing-agent-trial.timer.d/soon.conf': '[Timer]\nOnBootSec=\nOnBootSec=5min\n',
  '/etc/systemd/system/thing-agent-trial.service.d/soon.conf': '[Service]\nEnvironment=PATIENCE=60\nRestartSec=1min\n',
  // Its udev was seen to need more than the half minute of the page for integrators to find the state partition.
  [String.raw`/etc/systemd/system/dev-disk-by\x2dpartlabel-state.device.d/90-slow.conf`]:
    '[Unit]\nJobRunningTimeoutSec=10min\n',
  // Space in every image for the files that a release changes.
  '/opt/application': 'x'.repeat(2 * 1024 * 1024),
  '/etc/systemd/network/ethernet.network':
    '[Match]\nName=e*\n[Network]\nAddress=10.0.2.15/24\nGateway=10.0.2.2\nLinkLocalAddressing=no\n',
  // Only these devices are triggered at a start.
  '/etc/systemd/system/systemd-udev-trigger.service.d/few.conf':
    '[Service]\nExecStart=\nExecStart=-udevadm trigger --action=add ' +
    '--subsystem-match=block --subsystem-match=net --subsystem-match=pci --subsystem-match=virtio\n',
  // Masked: they only cost time on an emulated machine.
  ...Object.fromEntries(masked.map((unit) => [`/etc/systemd/system/${unit}`, ''])),
  '/initrd.img': emptyArchive(),
};

/** cpio(5), "newc": the kernel takes it for a root file system in memory without an /init, and mounts `root=`. */
function emptyArchive(): string {
  const name = 'TRAILER!!!\0';
  const fields = [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, name.length, 0];
  const text = `070701${fields.map((field) => field.toString(16).padStart(8, '0')).join('')}${name}`;
  return text.padEnd(512, '\0');
}
