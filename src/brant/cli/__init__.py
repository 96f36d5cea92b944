"""The `brant` command: queues for scripts, cron jobs and operators."""
