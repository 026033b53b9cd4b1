"""The conformance cases: read, planted, played against a daemon through the public client, and judged."""
