"""How a topic's offsets are kept on the target, where copying begins, and whether the log is damaged. Pure."""
