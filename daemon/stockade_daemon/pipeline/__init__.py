"""The pipeline: a call's way from its record to its result, one module for each stage; see `run.py`."""
