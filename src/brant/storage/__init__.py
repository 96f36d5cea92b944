"""What is stored, and how: verbs that know of no backend, and the backends."""
