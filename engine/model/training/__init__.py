"""Training of the reference checkpoint; nothing of serving imports it."""
