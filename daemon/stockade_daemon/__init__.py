"""The process with rights: registry, policy, gate, ledger and sandbox behind one gRPC server."""
