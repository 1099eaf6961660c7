"""The step ``plan``: reads the state of both clusters for the planner."""
