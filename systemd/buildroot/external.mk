include $(sort $(wildcard $(BR2_EXTERNAL_THING_AGENT_PATH)/package/*/*.mk))
