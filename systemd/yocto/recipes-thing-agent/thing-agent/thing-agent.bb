SUMMARY = "Firmware updates of a Linux gateway and its microcontrollers"
DESCRIPTION = "A daemon that keeps a gateway and its boards on the firmware that a provisioning service \
assigns, in one of two slots, and delivers measurements."
SECTION = "admin"
# The program, the packages in it, and the Node.js runtime. `copyright` has all texts, also those of licenses that
# not every OE-Core knows. It is not in LIC_FILES_CHKSUM, since its checksum changes with each part.
LICENSE = "Apache-2.0 & MIT & ISC & BSD-2-Clause & BSD-3-Clause & Zlib"
LIC_FILES_CHKSUM = "file://LICENSE;md5=3b83ef96387f14655fc854ddc3c6bd57"

def thing_agent_version(d):
    import json, os
    with open(os.path.join(d.getVar("FILE_DIRNAME"), "../../../../package.json")) as file:
        return json.load(file)["version"]

# The version of the source tree that this layer is part of.
THING_AGENT_VERSION ?= "${@thing_agent_version(d)}"
# Where `npm run build -- --tar --strip --arch ARCH --out DIR` put the archive: file:///DIR, or the address of a server.
THING_AGENT_SITE ?= "file://${@os.path.normpath(d.getVar('FILE_DIRNAME') + '/../../../../packages')}"
# The checksum of the archive, from SHA256SUMS. A server requires it.
THING_AGENT_SHA256 ?= ""
# Files of the build machine for /etc/thing-agent: the configuration, and the public keys that sign releases.
THING_AGENT_CONFIG ?= ""
THING_AGENT_KEYS ?= ""

PV = "${THING_AGENT_VERSION}"
COMPATIBLE_HOST = "(x86_64|aarch64).*-linux"
COMPATIBLE_HOST:libc-musl = "null"
THING_AGENT_ARCH = "unsupported"
THING_AGENT_ARCH:x86-64 = "amd64"
THING_AGENT_ARCH:aarch64 = "arm64"

SRC_URI = "${THING_AGENT_SITE}/thing-agent-${PV}-${THING_AGENT_ARCH}.tar.gz"
SRC_URI[sha256sum] = "${THING_AGENT_SHA256}"

inherit features_check systemd useradd

REQUIRED_DISTRO_FEATURES = "systemd"
SYSTEMD_SERVICE:${PN} = "thing-agent.service thing-agent-trial.timer thing-agent-trial.service"
# Without a configuration, the service cannot start.
SYSTEMD_AUTO_ENABLE = "${@'enable' if d.getVar('THING_AGENT_CONFIG') else 'disable'}"
USERADD_PACKAGES = "${PN}"
GROUPADD_PARAM:${PN} = "--system thing-agent; --system thing-operators"

do_configure[noexec] = "1"
do_compile[noexec] = "1"

python thing_agent_copyright() {
    import os, shutil
    place = os.path.join(d.getVar("LICSSTATEDIR"), d.getVar("LICENSE_DEPLOY_PATHCOMPONENT") or "", d.getVar("PN"))
    shutil.copy(os.path.join(d.getVar("S"), "copyright"), place)
}
do_populate_lic[postfuncs] += "thing_agent_copyright"

do_install() {
    sh ${S}/systemd/install --root ${D} --tree ${S}
    for file in ${THING_AGENT_CONFIG}; do
        install -m 0644 $file ${D}${sysconfdir}/thing-agent/config.toml
    done
    for file in ${THING_AGENT_KEYS}; do
        install -m 0644 $file ${D}${sysconfdir}/thing-agent/trust/
    done
}
do_install[file-checksums] += "${@' '.join(file + ':True' for file in (d.getVar('THING_AGENT_CONFIG') + ' ' + d.getVar('THING_AGENT_KEYS')).split())}"

FILES:${PN} = "${bindir}/agent ${prefix}/lib ${sysconfdir}/thing-agent"
CONFFILES:${PN} = "${@'${sysconfdir}/thing-agent/config.toml' if d.getVar('THING_AGENT_CONFIG') else ''}"
RDEPENDS:${PN} = "util-linux-flock"

# The archive has finished programs: the runtime, and the driver of serial ports.
INHIBIT_PACKAGE_STRIP = "1"
INHIBIT_SYSROOT_STRIP = "1"
INHIBIT_PACKAGE_DEBUG_SPLIT = "1"
INSANE_SKIP:${PN} = "already-stripped ldflags"
