"""Which flows the records of topics came through, and which topics other flows share or MirrorMaker 2 reads."""
