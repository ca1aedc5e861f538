################################################################################
#
# thing-agent
#
################################################################################

THING_AGENT_VERSION = $(shell sed -n 's/^  "version": "\(.*\)",$$/\1/p' $(BR2_EXTERNAL_THING_AGENT_PATH)/../../package.json)
THING_AGENT_SITE = $(call qstrip,$(BR2_PACKAGE_THING_AGENT_SITE))
ifneq ($(filter /%,$(THING_AGENT_SITE)),)
THING_AGENT_SITE_METHOD = file
endif
THING_AGENT_SOURCE = thing-agent-$(THING_AGENT_VERSION)-$(if $(BR2_aarch64),arm64,amd64).tar.gz
THING_AGENT_LICENSE = Apache-2.0, MIT, ISC, BSD-2-Clause, BSD-3-Clause, BlueOak-1.0.0, Unicode-3.0, Zlib
THING_AGENT_LICENSE_FILES = LICENSE copyright

define THING_AGENT_INSTALL_TARGET_CMDS
	sh $(@D)/systemd/install --root $(TARGET_DIR) --tree $(@D) --no-groups
endef

define THING_AGENT_USERS
	- -1 thing-agent -1 - - - - Thing Agent
	- -1 thing-operators -1 - - - - Thing Agent
endef

$(eval $(generic-package))
