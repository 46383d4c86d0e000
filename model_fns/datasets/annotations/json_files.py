"""JSON files of annotations, with one sentence for each that is malformed."""

from __future__ import annotations

import json
from typing import Any, Dict, Sequence

from estimator_lib import errors
from model_fns.datasets.files import folder_files


def read(path: str, lists: Sequence[str], expected: str) -> Dict[str, Any]:
    """Read an object whose values by some keys are lists.

    Args:
        path: of the file.
        lists: the keys.
        expected: description of such a file, for messages.

    Raises:
        errors.DataError: the file is not there, not JSON, or has no such lists.
    """
    try:
        content = json.loads(folder_files.read_text(path))
    except (ValueError, RecursionError) as error:
        raise errors.DataError(f'{path} is not JSON: {error}.') from None
    for key in lists:
        if not isinstance(content, dict) or not isinstance(content.get(key), list):
            raise errors.DataError(f'{path} has no "{key}"; expected {expected}.')
    return content
