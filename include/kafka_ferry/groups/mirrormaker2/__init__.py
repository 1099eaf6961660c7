"""What MirrorMaker 2 stores of groups and offsets, byte for byte. Pure."""
