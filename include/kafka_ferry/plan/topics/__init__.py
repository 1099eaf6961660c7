"""Which topics a flow mirrors, what they are called on the target, and what is done about each. Pure."""
