"""Great Expectations: the expectations on the tables, including users' own, and their result pages."""
