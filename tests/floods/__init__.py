"""Output that never seems to end, read by whoever is cut off or slow, and processes that do not want to end."""
