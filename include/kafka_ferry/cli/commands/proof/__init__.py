"""The commands about what was copied: is it there, is it whole, who says so."""
