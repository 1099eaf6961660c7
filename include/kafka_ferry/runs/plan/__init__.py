"""The step ``plan``: what both clusters say, for the planner."""
