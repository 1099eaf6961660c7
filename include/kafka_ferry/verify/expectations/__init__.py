"""Great Expectations: expectations on the tables, those of users too, and the pages of what was found."""
