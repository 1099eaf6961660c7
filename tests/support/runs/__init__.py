"""Flows and their runs, whole or in parts, and what they leave."""
