"""The client: connection, sessions, approvals, the model loop and the command line."""
