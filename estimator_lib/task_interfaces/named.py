"""Base of the interfaces whose errors name the task."""

from __future__ import annotations

import abc


class Named(abc.ABC):
    """Object with a name in messages."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Return the name of the task in messages: `classification`."""
