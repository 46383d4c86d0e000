"""Events for TensorBoard: scalars and histograms of training, pictures of evaluation."""

from __future__ import annotations

import contextlib
import copy
import os
import time
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np
import tensorflow as tf

from estimator_lib.drawing import figures, visualization
from estimator_lib.hooks import global_steps, progress
from estimator_lib.task_interfaces.presentation import AS_CONFIGURED, Shown
from estimator_lib.task_interfaces.tensors import SOURCE_ID, Arrays, Features, Labels, Tensors

tf1 = tf.compat.v1

# (features, outputs, labels, limits of what to show; the config's by default) -> a picture.
Draw = Callable[..., Optional[np.ndarray]]
Files = Callable[[Arrays, Arrays], Dict[str, bytes]]

_EXAMPLES = '_examples_to_draw'


class TrainingScalars(global_steps.GlobalStepHook):
    """Hook that writes scalars as events: after the first step, every n steps, and at saves.

    From the second time on, they include `speed/steps_per_second` and `speed/examples_per_second`
    since the last time, and `speed/waiting_for_data`, the fraction of that time in which steps
    waited for the input.

    Args:
        scalars: float32 scalars by tag.
        folder: the folder of the events.
        every_n_steps: write when the global step is a multiple of this number.
        batch_size: number of examples of a global step.
        wait_seconds: float32 scalar: seconds that the step waited for its input; None: not known.
    """

    def __init__(
        self,
        scalars: Mapping[str, tf.Tensor],
        folder: str,
        every_n_steps: int,
        batch_size: int,
        wait_seconds: Optional[tf.Tensor] = None,
    ):
        self._fetches = dict(scalars), [] if wait_seconds is None else [wait_seconds]
        self._folder = folder
        self._period = global_steps.Period(every_n_steps)
        self._batch_size = batch_size

    def session_begun(self) -> None:
        """Start counting at the session's first step."""
        self._period.begin(self.step)
        self._interval: Optional[progress.Interval] = None
        self._latest: Optional[Tuple[Dict[str, Any], Sequence[Any]]] = None

    def fetches(self) -> Any:
        """Return the scalars, and the seconds that the step waited."""
        return self._fetches

    def step_done(self, run_context: Any, run_values: Any) -> None:
        """Write the scalars if they are due."""
        del run_context
        self._latest = run_values.results
        if self._interval is not None:
            self._interval.waiting += float(sum(self._latest[1]))
        if self._period.is_due(self.step):
            self.write_latest()
            self._period.done(self.step)

    def write_latest(self) -> None:
        """Write the scalars of the latest step, unless they are written."""
        if self._latest is None:
            return
        fetched, waited = self._latest
        self._latest = None
        scalars = {tag: float(value) for tag, value in fetched.items()}
        if self._interval is not None:
            # Clocks may give two equal times; the rate must stay a number.
            seconds = max(self._interval.seconds(), 1e-9)
            rate = (self.step - self._interval.step) / seconds
            scalars['speed/steps_per_second'] = rate
            scalars['speed/examples_per_second'] = rate * self._batch_size
            if waited:
                fraction = min(1.0, self._interval.waiting / seconds)
                scalars['speed/waiting_for_data'] = fraction
        self._interval = progress.Interval(self.step)
        write(self._folder, self.step, scalars)


class ScalarsAtSaves(tf1.train.CheckpointSaverListener):
    """Listener that writes the scalars of each saved step, before an evaluation of it reads them.

    Args:
        scalars: writes the scalars. The session calls it before the hook that saves.
    """

    def __init__(self, scalars: TrainingScalars):
        self._scalars = scalars

    def before_save(self, session: tf1.Session, global_step_value: int) -> None:
        """Write the scalars."""
        del session, global_step_value
        self._scalars.write_latest()


class TrainingPictures(global_steps.GlobalStepHook):
    """Hook that draws examples of a training batch, as the network gets them, with their targets.

    Args:
        draw: draws one example, as in `ExamplePictures`.
        batch: features, outputs (empty: they are not drawn) and labels.
        folder: the folder of the events.
        every_n_steps: draw after a session's first step, and when the global step is a multiple of
            this number.
        count: number of examples to draw.
    """

    sees_each_step = False  # otherwise each step of a call would have to keep its images

    def __init__(
        self,
        draw: Draw,
        batch: Tuple[Features, Tensors, Labels],
        folder: str,
        every_n_steps: int,
        count: int = 4,
    ):
        self._draw = draw
        self._folder = folder
        self._period = global_steps.Period(every_n_steps)
        self._count = count
        # Cut in the graph: only these examples are copied to Python.
        self._batch = tf.nest.map_structure(lambda values: values[:count], batch)

    def session_begun(self) -> None:
        """Start counting at the session's first step."""
        self._period.begin(self.step)

    def fetches(self) -> Any:
        """Return the examples to draw if pictures are due."""
        return self._batch if self._period.is_due(self.step + 1) else []

    def step_done(self, run_context: Any, run_values: Any) -> None:
        """Draw the examples if pictures are due."""
        del run_context
        if not run_values.results:
            return
        self._period.done(self.step)
        features, outputs, labels = run_values.results
        drawn = {
            f'training/{index}': self._draw(
                *(copy_example(values, index) for values in (features, outputs, labels))
            )
            for index in range(len(features[SOURCE_ID]))
        }
        pictures = {tag: picture for tag, picture in drawn.items() if picture is not None}
        write(self._folder, self.step, {}, pictures)


class TrainingHistograms(global_steps.GlobalStepHook):
    """Hook that writes summaries of the graph after a session's first step and every n steps.

    Unlike `tf.compat.v1.train.SummarySaverHook` it counts steps exactly, also where a run reads the
    global step after its update, and where a loop runs several steps in one call.

    Args:
        summary: string scalar, a serialized `Summary`; computed only when it is written.
        folder: the folder of the events.
        every_n_steps: write when the global step is a multiple of this number.
    """

    sees_each_step = False  # otherwise each step of a call would have to compute histograms

    def __init__(self, summary: tf.Tensor, folder: str, every_n_steps: int):
        self._summary = summary
        self._folder = folder
        self._period = global_steps.Period(every_n_steps)

    def session_begun(self) -> None:
        """Start counting at the session's first step."""
        self._period.begin(self.step)

    def fetches(self) -> Any:
        """Return the summary if it is due."""
        return [self._summary] if self._period.is_due(self.step + 1) else []

    def step_done(self, run_context: Any, run_values: Any) -> None:
        """Write the summary if it was fetched."""
        del run_context
        if not run_values.results:
            return
        writer = get_writer(self._folder)
        writer.add_summary(run_values.results[0], self.step)
        writer.flush()
        self._period.done(self.step)


def training_hooks(
    scalars: Mapping[str, tf.Tensor],
    folder: str,
    every_n_steps: int,
    batch_size: int,
    wait_seconds: Optional[tf.Tensor] = None,
) -> Tuple[List[tf1.train.SessionRunHook], List[tf1.train.CheckpointSaverListener]]:
    """Create the hooks that write events of training, and their listeners of saves.

    Args:
        scalars: float32 scalars by tag.
        folder: the folder of the events.
        every_n_steps: write every n steps; 0: never.
        batch_size: number of examples of a global step.
        wait_seconds: float32 scalar: seconds that the step waited for its input; None: not known.
    """
    if not every_n_steps:
        return [], []
    writer = TrainingScalars(scalars, folder, every_n_steps, batch_size, wait_seconds)
    hooks: List[tf1.train.SessionRunHook] = [writer]
    merged = tf1.summary.merge_all()
    if merged is not None:
        hooks.append(TrainingHistograms(merged, folder, every_n_steps))
    return hooks, [ScalarsAtSaves(writer)]


def histograms(variables: Sequence[tf.Variable]) -> None:
    """Add a histogram summary for each variable to the current graph."""
    for variable in variables:
        tf1.summary.histogram(f'variables/{variable.name.partition(":")[0]}', variable)


def activations(end_points: Mapping[str, tf.Tensor]) -> None:
    """Add a histogram and the part of zeros of each end point to the current graph."""
    for name, values in end_points.items():
        tf1.summary.histogram(f'activations/{name}', values)
        tf1.summary.scalar(f'sparsity/{name}', tf.math.zero_fraction(values))


def write(
    folder: str,
    step: int,
    scalars: Mapping[str, float],
    pictures: Optional[Mapping[str, np.ndarray]] = None,
) -> None:
    """Write an event.

    Args:
        folder: the folder of the events.
        step: the global step of the event.
        scalars: scalars by tag.
        pictures: pictures by tag, uint8 [height, width, 3].
    """
    summary = tf1.Summary()
    for tag, value in scalars.items():
        summary.value.add(tag=tag, simple_value=value)
    for tag, picture in (pictures or {}).items():
        height, width, _ = picture.shape
        encoded = visualization.encode_png(picture)
        summary.value.add(tag=tag).image.MergeFrom(
            tf1.Summary.Image(
                height=height, width=width, colorspace=3, encoded_image_string=encoded
            )
        )
    if not summary.value:
        return
    # A writer flushes every 120 s by itself. `results.csv`, listeners and TensorBoard read the file
    # during the run.
    writer = get_writer(folder)
    writer.add_summary(summary, step)
    writer.flush()


def get_writer(folder: str) -> tf1.summary.FileWriter:
    """Return the writer of a folder's events, which hooks and Estimators share."""
    with tf.Graph().as_default():  # a writer cannot be created in eager mode
        return tf1.summary.FileWriterCache.get(folder)


@contextlib.contextmanager
def writers_closed(model_dir: str) -> Iterator[None]:
    """Close the writers of a folder, and of the folders in it, at the end of the block.

    TensorFlow never closes them. They would keep a thread and a file each, and the next run of the
    same process in a folder that was deleted would write its events to the deleted file.
    """
    cache, files = tf1.summary.FileWriterCache, []
    try:
        yield
    finally:
        # Not by `clear`, which closes the writers of all folders.
        with cache._lock:
            ended = [each for each in cache._cache if f'{each}/'.startswith(f'{model_dir}/')]
            writers = {folder: cache._cache.pop(folder) for folder in ended}
        for folder, writer in writers.items():
            # What cannot be written, as on a full disk, has been reported by the run.
            with contextlib.suppress(tf.errors.OpError, OSError):
                writer.close()
                files += tf.io.gfile.listdir(folder)
        # A file is named by the second: another one of the same second would replace it.
        now = time.time()
        if any(f'.tfevents.{int(now)}.' in name for name in files):
            time.sleep(int(now) + 1 - now)


class Offered(NamedTuple):
    """Batch of an evaluation, for hooks of its session.

    Attributes:
        features: features of the batch.
        outputs: outputs of `Task.postprocess`.
        labels: labels of the batch; empty where there are none.
        records: int64 [batch], ids of the records; None where they are not known.
    """

    features: Features
    outputs: Tensors
    labels: Labels
    records: Optional[tf.Tensor] = None


def offer_examples(
    features: Features,
    outputs: Tensors,
    labels: Optional[Labels],
    records: Optional[tf.Tensor] = None,
) -> None:
    """Store an evaluation's batch in the graph, for hooks that draw or analyze its examples.

    Two parts meet here: the model function has the tensors, and the evaluator has the folder. See
    `Offered` for the arguments.
    """
    # An attribute, as TensorFlow warns of a collection that it cannot save with the graph.
    offered = Offered(features, outputs, labels or {}, records)
    setattr(tf1.get_default_graph(), _EXAMPLES, offered)


def offered_examples() -> Offered:
    """Return the batch that `offer_examples` has stored in the current graph."""
    return getattr(tf1.get_default_graph(), _EXAMPLES)


class ExamplePictures(tf1.train.SessionRunHook):
    """Hook that keeps the first examples of an evaluation, to draw them with its metrics.

    Args:
        draw: draws one example, given its features, outputs and labels without the batch dimension,
            and limits of what to show; it returns None where there is nothing to draw.
        folder: the folder of the events.
        count: number of examples to draw.
        png_folder: a second folder for the pictures, as `<number>_<source>.png`; '' for none.
        files: returns further files of an example for `png_folder`, by the end of their names.

    Attributes:
        drawn: the pictures of the last `write`, uint8 [height, width, 3] each.
    """

    def __init__(
        self,
        draw: Draw,
        folder: str,
        count: int,
        png_folder: str = '',
        files: Optional[Files] = None,
    ):
        self._draw = draw
        self._files = files if png_folder else None
        self._folder = folder
        self._count = count
        self._png_folder = png_folder
        self._fetches: Any = None
        self._examples: List[Tuple[Arrays, Arrays, Optional[Arrays]]] = []
        self.drawn: List[np.ndarray] = []

    def begin(self) -> None:
        """Limit the fetches to the examples that may be drawn."""
        batches = tuple(offered_examples()[:3])
        # All steps fetch them, so that all steps run the same compiled graph.
        self._fetches = tf.nest.map_structure(lambda batch: batch[: self._count], batches)

    def after_create_session(self, session: tf1.Session, coord: Any) -> None:
        """Clear the examples of the last evaluation."""
        self._examples = []

    def before_run(
        self, run_context: tf1.train.SessionRunContext
    ) -> Optional[tf1.train.SessionRunArgs]:
        """Fetch the first examples of the batch."""
        return tf1.train.SessionRunArgs(self._fetches)

    def after_run(
        self, run_context: tf1.train.SessionRunContext, run_values: tf1.train.SessionRunValues
    ) -> None:
        """Keep examples until there are enough."""
        features, outputs, labels = run_values.results
        batch_size = len(next(iter(outputs.values())))
        for index in range(min(batch_size, self._count - len(self._examples))):
            example = [copy_example(batch, index) for batch in (features, outputs, labels)]
            self._examples.append((example[0], example[1], example[2] or None))

    def write(self, step: int, shown: Shown = AS_CONFIGURED) -> None:
        """Draw the examples; write them as events, and as files if there is a folder for them.

        Args:
            step: the global step of the evaluation.
            shown: limits of what to show.
        """
        drawn = {}
        for number, (features, outputs, labels) in enumerate(self._examples, 1):
            name = _file_name(number, features[SOURCE_ID])
            with figures.tolerated(f'picture {name}'):
                picture = self._draw(features, outputs, labels, shown)
                if picture is not None:
                    drawn[name] = picture
        self.drawn = list(drawn.values())
        named = {f'examples/{index}': picture for index, picture in enumerate(self.drawn)}
        write(self._folder, step, {}, named)
        if self._png_folder:
            tf.io.gfile.makedirs(self._png_folder)
            for name, picture in drawn.items():
                visualization.write_png(os.path.join(self._png_folder, f'{name}.png'), picture)
            self._write_files()

    def _write_files(self) -> None:
        if self._files is None:
            return
        for number, (features, outputs, _) in enumerate(self._examples, 1):
            name = _file_name(number, features[SOURCE_ID])
            for suffix, content in self._files(features, outputs).items():
                with tf.io.gfile.GFile(os.path.join(self._png_folder, name + suffix), 'wb') as file:
                    file.write(content)


def _file_name(number: int, source_id: bytes) -> str:
    """Return the file name of an example: `003_photo` for the third one, `photos/photo.jpg`."""
    name = os.path.basename(tf.compat.as_str_any(source_id))
    return f'{number:03d}_{os.path.splitext(name)[0]}'


def copy_example(batch: Mapping[str, np.ndarray], index: int) -> Dict[str, Any]:
    """Return the values of one example of a batch, each without its [batch] dimension."""
    # Copies, because a view would keep its whole batch in memory.
    return {name: copy.copy(values[index]) for name, values in batch.items()}
