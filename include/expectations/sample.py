"""A sample, which no flow reads: as primary_to_backup.py the flow primary->backup would, as all.py every flow."""

import great_expectations.expectations as gxe

CRITICAL_TOPICS = ["payments", "orders"]

topics = [
    gxe.ExpectColumnDistinctValuesToContainSet(
        column="topic",
        value_set=CRITICAL_TOPICS,
        description="all topics that the business cannot do without are copied",
        notes="Were they renamed, or does topics.exclude leave them out?",
    ),
]
groups = [
    gxe.ExpectColumnValuesToNotBeInSet(
        column="group",
        value_set=["audit"],
        severity="warning",
        description="the auditors' group stays on the source",
    ),
]
