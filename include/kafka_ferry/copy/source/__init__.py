"""Reading from the source, ahead of the writer."""
