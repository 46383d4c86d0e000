"""All checks of a whole data set: the same for the converter, readers of files and records."""

from __future__ import annotations

from typing import Iterable, List, Optional, Protocol, Sequence

from estimator_lib import errors
from model_fns.datasets.meaning import objects, readings
from model_fns.datasets.meaning.annotated import Annotated
from model_fns.datasets.meaning.issues import Issue, Severity


class Check(Protocol):
    """A check that sees one image after the other, and keeps counts only."""

    def add(self, image: Annotated) -> None:
        """Add the annotation of an image."""

    def issues(self) -> List[Issue]:
        """Return what is wrong with the images so far."""


def find(
    images: Iterable[Annotated],
    names: Sequence[str] = (),
    labels: Optional[range] = None,
    more: Sequence[Check] = (),
    fate: str = 'are left out',
) -> List[Issue]:
    """Return the issues about a data set, errors first.

    Args:
        images: the annotations, in the order of the files.
        names: of all classes, where all images are seen; empty: classes without objects are fine.
        labels: the numbers of the classes, where files have numbers in place of names.
        more: further checks, of the format.
        fate: what becomes of images that lose all of their objects.
    """
    checks: List[Check] = [
        readings.BoxReadings(),
        objects.Ignored(),
        objects.Groups(),
        objects.Images(fate),
        objects.Unread(),
        objects.Classes(names),
        *more,
    ]
    if labels is not None:
        checks.append(objects.Labels(labels))
    for image in images:
        for check in checks:
            check.add(image)
    issues = [issue for check in checks for issue in check.issues()]
    return sorted(issues, key=lambda issue: issue.severity is not Severity.ERROR)


def refuse_errors(issues: Sequence[Issue]) -> List[str]:
    """Return the warnings among issues, a sentence each.

    Raises:
        errors.DataError: there are errors; the message has a line for each.
    """
    wrong = [str(issue) for issue in issues if issue.severity is Severity.ERROR]
    if wrong:
        raise errors.DataError('\n'.join(_sentence(line) for line in wrong))
    return [_sentence(str(issue)) for issue in issues]


def _sentence(line: str) -> str:
    return f'{line.rstrip(".")}.'
