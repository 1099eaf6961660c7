"""The types of options' values, and how each is read."""
