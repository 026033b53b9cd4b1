"""Bodies of the built-in tools; the JSON file beside each is its manifest, which the daemon reads as data."""
