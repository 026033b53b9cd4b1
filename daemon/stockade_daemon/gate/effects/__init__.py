"""The effects of a command: the difference of its private view, committed as one transaction.

upper.py    what an overlay's upper directory holds
plan.py     what that changes of the workspace as it is now, and by which steps
rules.py    what of it policy has to hear of: protected names, links that leave
area.py     where the new bytes wait in the workspace's file system
steps.py    the steps, each of which can be found done, and taken back
commit.py   all of them, or none
undo.py     after a crash: finished, or taken back
"""
