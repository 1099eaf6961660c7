"""Java programs that tests ask, and what Java answered."""
