"""What is wrong with a history, by what is true."""
