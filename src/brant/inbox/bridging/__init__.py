"""Bridges: the events of a stream go to another node over HTTP, and come out of its stream, once and in order."""
