"""What the commands beside the front door share of their command lines."""

from __future__ import annotations

import argparse

from estimator_lib import errors


class Parser(argparse.ArgumentParser):
    """Errors in one sentence, without the usage above them."""

    def error(self, message: str) -> None:
        """See the class.

        Raises:
            errors.UserError: always.
        """
        raise errors.UserError(f'{message} (--help lists the flags)')
