"""Registries of parts by name: a dict and a decorator."""

from __future__ import annotations

from typing import Callable, Dict, Generic, Iterator, TypeVar

from estimator_lib import errors

Part = TypeVar('Part')


class Registry(Generic[Part]):
    """Registry of the parts of one kind.

    Args:
        kind: the kind of the parts in error messages, as "backbone".
    """

    def __init__(self, kind: str):
        self._kind = kind
        self._parts: Dict[str, Part] = {}

    def register(self, name: str) -> Callable[[Part], Part]:
        """Return a decorator that adds a part; the name must be new."""

        def add(part: Part) -> Part:
            self.add(name, part)
            return part

        return add

    def add(self, name: str, part: Part) -> None:
        """Add a part under a new name.

        Raises:
            ValueError: the name is registered already.
        """
        if name in self._parts:
            raise ValueError(f'{self._kind} {name!r} is registered twice.')
        self._parts[name] = part

    def get(self, name: str, where: str = '') -> Part:
        """Return the part of a name.

        Args:
            name: the name.
            where: the config field with the name, for the error message.

        Raises:
            errors.ConfigError: the name is unknown; the message suggests the nearest.
        """
        if name in self._parts:
            return self._parts[name]
        place = f'{where}: ' if where else ''
        raise errors.ConfigError(
            f'{place}unknown {self._kind} {name!r}{errors.did_you_mean(name, self._parts)}'
        )

    def __contains__(self, name: object) -> bool:
        return name in self._parts

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._parts))
