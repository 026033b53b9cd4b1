"""One file per command. Each has `command`; what they share is in options.py and running.py."""
