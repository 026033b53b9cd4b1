"""Tools of one's own, in a real daemon that watches a real directory."""
