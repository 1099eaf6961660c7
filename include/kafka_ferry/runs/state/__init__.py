"""What a flow and its runs keep in the state folder."""
