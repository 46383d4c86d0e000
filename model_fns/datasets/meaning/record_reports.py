"""Reports of records by what they mean together, for `--mode=check` and the start of a run."""

from __future__ import annotations

from typing import Callable, List, Mapping, Sequence

from estimator_lib import errors
from estimator_lib.analysis.parts import Table
from estimator_lib.task_interfaces.data_checks import DataReport
from model_fns.datasets.meaning.annotated import Annotated
from model_fns.datasets.meaning.issues import Issue, Severity

TRAINING = 'train_input_reader'


def report(
    readers: Mapping[str, Sequence[Annotated]], find: Callable[[Sequence[Annotated]], List[Issue]]
) -> DataReport:
    """Return the issues of the records of each reader.

    Args:
        readers: what the records say, by reader.
        find: returns the issues of the records of a reader, as `checks.find` does.
    """
    warnings: List[str] = []
    problems: List[str] = []
    certain: List[str] = []
    for name, images in readers.items():
        for issue in find(images):
            wrong = certain if issue.is_certain else problems
            is_error = issue.severity is Severity.ERROR
            (wrong if is_error else warnings).append(f'{name}: {issue}')
    return DataReport((), warnings, problems, certain)


def require(first: DataReport, are_all: bool) -> List[str]:
    """Return the warnings about the first training examples, a sentence each.

    Args:
        first: the report of these examples.
        are_all: whether there are no others; a problem of a sample is a warning.

    Raises:
        errors.DataError: the model cannot learn from them.
    """
    wrong = [*first.certain, *(first.problems if are_all else ())]
    if wrong:
        raise errors.DataError('\n'.join(f'{line.rstrip(".")}.' for line in wrong))
    return [*first.problems, *first.warnings]


def tables(meaning: DataReport) -> List[Table]:
    """Return a table with the issues of `report`; no table without issues."""
    rows = [
        *([Severity.ERROR.value, text] for text in (*meaning.certain, *meaning.problems)),
        *([Severity.WARNING.value, text] for text in meaning.warnings),
    ]
    if not rows:
        return []
    note = 'What the annotations mean together; --mode=check --check_all looks at all records.'
    return [Table('meaning', 'Issues of the annotations', ('severity', 'issue'), rows, note)]


def add(classes: DataReport, meaning: DataReport) -> DataReport:
    """Return a report of classes with the issues of `report`."""
    return DataReport(
        classes.lines,
        [*classes.warnings, *meaning.warnings],
        [*classes.problems, *meaning.problems],
        [*classes.certain, *meaning.certain],
    )
