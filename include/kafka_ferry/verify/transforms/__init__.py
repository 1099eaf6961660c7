"""Transform rules, evaluated again: what they give for the source's records, compared with the target's."""
