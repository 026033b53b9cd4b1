"""The pipeline: a call's way from its record to its result. One module for each stage; `run.py` has it on one screen."""
