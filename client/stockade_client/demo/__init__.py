"""The demo: an agent fixes a fault in a real program, through the daemon like any other agent."""
