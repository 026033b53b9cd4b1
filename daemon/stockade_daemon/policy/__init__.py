"""Policy: what may happen. Waterfalls, the profile's rules, guards, and people who are asked."""
