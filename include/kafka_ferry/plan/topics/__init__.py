"""Which topics a flow mirrors, their names on the target, and what is done about each. Pure."""
