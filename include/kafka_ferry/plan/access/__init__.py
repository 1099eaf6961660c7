"""What a run changes in ACLs, quotas and SCRAM users on the target. Pure."""
