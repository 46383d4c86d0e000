"""Interface of tasks for checks of their data before training."""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Any,
    Collection,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

if TYPE_CHECKING:
    from estimator_lib.analysis.parts import Part


class DataReport(NamedTuple):
    """Statistics and problems of the examples of a config, for `--mode=check`.

    Attributes:
        lines: lines to print.
        warnings: sentences about examples that are allowed but probably mistakes.
        problems: sentences about examples that no run can use, valid if all were examined.
        certain: sentences about examples that no run can use, whatever the others are.
    """

    lines: Sequence[str] = ()
    warnings: Sequence[str] = ()
    problems: Sequence[str] = ()
    certain: Sequence[str] = ()


class DataChecks:
    """Part of a task that checks its records against its config; each method has a default."""

    def check_evaluation(self) -> None:
        """Refuse an evaluation that is bound to fail, before training begins.

        Raises:
            errors.UserError: the examples do not fit the config.
        """
        del self

    def check_first_examples(self, records: Sequence[bytes], are_all: bool) -> Sequence[str]:
        """Refuse training examples that the model cannot learn from.

        Args:
            records: the first ones.
            are_all: whether there are no others.

        Returns:
            Warnings, a sentence each.

        Raises:
            errors.DataError: the records have nothing that the model could learn.
        """
        del records, are_all
        return ()

    def check_example(self, serialized: bytes) -> Optional[str]:
        """Return the problem of a record, without building a graph; None if it is valid.

        This is a cheap check of keys and values for `--mode=check`; `decode` checks the image.
        """
        del serialized
        return None

    def repair_example(self, serialized: bytes) -> Optional[Tuple[bytes, str]]:
        """Return a malformed record without its malformed objects, and a description of these.

        Readers with `corrupt_record_policy: SKIP` call it for records that do not decode, so that
        one such object does not cost the others of its image.

        Args:
            serialized: a record that `decode` refuses, possibly not a `tf.train.Example`.

        Returns:
            The repaired record; None where no object is left, or the problem is not of an object.
        """
        del serialized
        return None

    def examine(self, serialized: bytes) -> Any:
        """Extract the input of `data_report` from a valid record; keep it small."""
        del serialized

    def list_classes(self, serialized: bytes) -> Collection[int]:
        """Return the class ids of a valid record, for `train_config.repeat_factor_threshold`."""
        del serialized
        return ()

    def data_report(self, examined: Mapping[str, Sequence[Any]]) -> DataReport:
        """Return a report of the examples: classes, sizes.

        Args:
            examined: from `examine` for each record, by reader: `train_input_reader`, then
                `eval_input_reader[0]` and so on.
        """
        del examined
        return DataReport()

    def label_figures(self, examined: Mapping[str, Sequence[Any]]) -> Sequence[Part]:
        """Return figures and tables about the labels: classes, sizes, issues.

        Args:
            examined: as in `data_report`.
        """
        del examined
        return ()
