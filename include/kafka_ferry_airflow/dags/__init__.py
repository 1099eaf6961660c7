"""The parts of a flow's DAGs: schedule, form, tasks, deadline, approval."""
