"""What other parts ask of the ledger's table: only ``ledger`` knows its columns."""
