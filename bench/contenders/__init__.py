"""The same two tasks for Brant and for each peer, in the module that its worker imports.

Each module takes the place of its data from the environment and offers what `bench.tasks.Contender` names.
"""
