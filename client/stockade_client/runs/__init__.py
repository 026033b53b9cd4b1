"""Files of recorded calls: read, played in sessions of their own, told as a report."""
