"""The files that flows are read from, and the pages and schema made of their options."""
