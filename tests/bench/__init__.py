"""`make bench`: what calls cost, on this machine, now. A report, never a test: nothing here fails for being slow."""
