"""Compares two topics on two clusters, whichever mirror filled the second one; needs no ledger."""
