"""What keeps strangers out: flows in envelopes and their key, private sockets, callbacks with a token."""
