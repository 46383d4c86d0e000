"""Argument parser of the commands."""

from __future__ import annotations

import argparse

from estimator_lib import errors


class Parser(argparse.ArgumentParser):
    """Argument parser that reports errors in one sentence, without the usage text."""

    def error(self, message: str) -> None:
        """Raise an error instead of printing the usage and exiting.

        Raises:
            errors.UserError: always.
        """
        raise errors.UserError(f'{message} (--help lists the flags)')
