"""The files that flows are read from, and the generated pages and schema of their options."""
