"""What all the parts speak of: topics, partitions, ranges, positions, changes and the plan. Pure."""
