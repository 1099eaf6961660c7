"""What is copied first, by which writer and task, and what retention may delete before. Pure."""
