"""What a copy took: time and memory of its processes, and the machine that they ran on."""
