"""Finds how the records of two logs differ, in bounded memory. Pure."""
