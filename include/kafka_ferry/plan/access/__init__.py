"""What a run changes in who may do what on the target. Pure."""
