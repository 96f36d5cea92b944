"""The jobs between databases and lake: each a query of its own that goes on where it stopped."""
