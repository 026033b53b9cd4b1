"""What runs inside: mounter, template zygote, workers and the bodies of the built-in tools.

Imports the standard library alone: these processes are started for every session and cloned for every call, and
what is not imported cannot be reached by a body.
"""
