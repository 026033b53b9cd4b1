"""A thousand entries that write one path, and workers of entries that are killed from outside."""
