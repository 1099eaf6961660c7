"""Takeover from MirrorMaker 2 or MirrorMaker 1, and giving topics back."""
