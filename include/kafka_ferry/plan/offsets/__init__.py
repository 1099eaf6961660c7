"""How a topic's offsets are kept on the target, and where its log begins, goes on and is damaged. Pure."""
