"""``python -m kafka_ferry`` is the command ``ferry``."""

from kafka_ferry.cli import main

main()
