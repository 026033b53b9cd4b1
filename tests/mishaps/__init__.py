"""What happens to a commit half way: no room, no right, no directory. The old bytes stand, or the new ones do."""
