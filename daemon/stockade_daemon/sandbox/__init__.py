"""Sandboxes: a profile becomes a plan, a plan a template, a template workers; one worker serves one call."""
