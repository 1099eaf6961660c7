"""The step ``verify``: reads a run's copies back and judges them."""
