"""Two simulated clusters under the product's own code: time, network and faults come from a seed."""
