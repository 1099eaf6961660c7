"""Java programs: which jars they need, where the jars come from, and the command that starts one."""
