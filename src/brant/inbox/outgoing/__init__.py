"""Outgoing webhooks: signed, guarded, timed, and put off while their receiver is away."""
