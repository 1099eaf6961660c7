"""What a run did and proved: an object, its JSON, and a page for the engineer on call."""

from kafka_ferry.report.page import headline, render
from kafka_ferry.report.run_report import RunReport

__all__ = ["RunReport", "headline", "render"]
