"""Where text of other files comes from that may help to complete this one."""
