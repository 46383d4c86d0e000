"""Interface of an export format: how a model is built, written and verified."""

from __future__ import annotations

import abc
from typing import Any, Callable, ClassVar, Dict, Generic, NamedTuple, Optional, TypeVar

from estimator_lib.task import Task
from estimator_lib.task_interfaces.agreement import MetricPair
from protos import pipeline_pb2

GraphHook = Optional[Callable[[], None]]
Measure = Callable[[str], MetricPair]
Model = TypeVar('Model')


class Source(NamedTuple):
    """Model that is exported.

    Attributes:
        task: builds the network.
        config: says whether moving averages of the variables are exported.
        checkpoint: prefix of the checkpoint.
        graph_hook_fn: called when the network is built, as in training; None: nothing is called.
        measure: evaluates the checkpoint and a file of it, by the path of the file; None: a metric
            cannot be required.
    """

    task: Task
    config: pipeline_pb2.TrainEvalPipelineConfig
    checkpoint: str
    graph_hook_fn: GraphHook = None
    measure: Optional[Measure] = None


class Writer(abc.ABC, Generic[Model]):
    """Export format with its options.

    A writer is a frozen dataclass. Its fields are the options of the format, by the names of the
    flags of `--mode=export`; a flag that is no field is refused (see `formats.create_writer`).

    Attributes:
        name: of the format, as `--format` has it.
        file_name: of the file in the export's folder.
        artifacts_folder: folder of the artifacts in the export's folder; '': beside the file.
    """

    name: ClassVar[str]
    file_name: ClassVar[str]
    artifacts_folder: ClassVar[str] = ''

    @abc.abstractmethod
    def build(self, source: Source) -> Model:
        """Build what is written, before a folder is created.

        Raises:
            errors.CheckpointError: the checkpoint is not of this model.
            errors.UserError: the format cannot hold the model, or an option does not fit it.
        """

    @abc.abstractmethod
    def write(self, model: Model, source: Source, folder: str) -> None:
        """Write the files of the format.

        Args:
            model: from `build`.
            source: of the model.
            folder: exists and is empty.

        Raises:
            errors.UserError: the format cannot hold the model.
        """

    @abc.abstractmethod
    def verify(self, model: Model, source: Source, folder: str) -> Dict[str, Any]:
        """Verify what `write` has written.

        Returns:
            Content of `export.json`: facts of the model (`model_facts`), `inputs`, `outputs`, and
            what only this format has.

        Raises:
            errors.UserError: the file computes something else than the model.
        """

    def finish(self, model: Model, source: Source, folder: str) -> None:
        """Write what needs the other files of the export, such as a program that uses it.

        Args:
            model: from `build`.
            source: of the model.
            folder: has the files of the format and the artifacts.

        Raises:
            errors.UserError: what was written does not work.
        """
        del model, source, folder
