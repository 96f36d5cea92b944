"""`NamedTuple` without `typing`, whose import would take a tenth of the time of a whole `brant write`."""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple
else:

    class _FromAnnotations(type):
        """Makes a named tuple of a class body's annotations, and keeps its methods."""

        def __new__(cls, name, bases, namespace):
            fields = namespace.get("__annotations__", {})
            if not bases or not fields:
                return super().__new__(cls, name, bases, namespace)
            made = namedtuple(name, fields, module=namespace["__module__"])
            made.__doc__ = namespace.get("__doc__")
            return made

    class NamedTuple(metaclass=_FromAnnotations):
        """A class with annotated fields becomes a tuple with names, as with `typing.NamedTuple`."""


__all__ = ["NamedTuple"]
