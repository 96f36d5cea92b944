"""The Postgres backend: a server, on which any number of hosts work side by side."""
