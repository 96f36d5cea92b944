"""Brant's speed, as ratios against the bare sqlite3 module and against peers, measured in one run."""
