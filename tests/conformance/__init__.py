"""Conformance: small harmless programs that ask whether a boundary holds, run through every way into the product."""
