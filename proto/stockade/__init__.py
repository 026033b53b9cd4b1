"""The public contract of Stockade: protobuf packages, one directory for each version."""
