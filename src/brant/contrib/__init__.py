"""Glue to other libraries, each module an extra of its own: metrics, traces, web applications, Django."""
