"""Somebody at a terminal who answers asks: the queue, a screen for it, and the same as plain lines."""
