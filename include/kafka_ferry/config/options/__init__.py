"""The options of a flow, a module for each subject."""
