"""Matches the records of source and target by their content. Pure."""
