"""What a flow's DAGs are made of: schedule, form, tasks, deadline, approval."""
