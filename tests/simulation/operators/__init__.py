"""What operators do: they repair flows that have stopped, and take over from another mirror."""
