"""The `brant` command: queues for scripts, cron jobs and operators."""

import gc

# Before anything else is imported: with Python's own 700 it would collect dozens of times by then, and find nothing.
gc.set_threshold(50_000)
