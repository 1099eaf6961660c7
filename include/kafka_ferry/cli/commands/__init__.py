"""The commands of ``ferry``, a module for each."""
