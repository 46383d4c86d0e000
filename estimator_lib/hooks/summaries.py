"""What TensorBoard shows: scalars and histograms of training, pictures of evaluation."""

from __future__ import annotations

import copy
import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib.drawing import visualization
from estimator_lib.hooks import global_steps, progress
from estimator_lib.task_interfaces.presentation import AS_CONFIGURED, Shown
from estimator_lib.task_interfaces.tensors import SOURCE_ID, Arrays, Features, Labels, Tensors

tf1 = tf.compat.v1

# Features, outputs, labels and what to show (as configured where it is left out) -> a picture.
Draw = Callable[..., Optional[np.ndarray]]
Files = Callable[[Arrays, Arrays], Dict[str, bytes]]

_EXAMPLES = 'examples_to_draw'


class TrainingScalars(global_steps.GlobalStepHook):
    """Writes scalars of training as events, after a session's first step and every n steps.

    From the second time on, `speed/steps_per_second` since the last time is among them, and
    `speed/waiting_for_data`, the part of that time in which the input was waited for.

    Args:
        scalars: float32 scalars by tag.
        folder: of the events.
        every_n_steps: events when the global step is a multiple of it.
        wait_seconds: float32 scalar: how long the step waited for its input; None: not known.
    """

    def __init__(
        self,
        scalars: Mapping[str, tf.Tensor],
        folder: str,
        every_n_steps: int,
        wait_seconds: Optional[tf.Tensor] = None,
    ):
        self._fetches = dict(scalars), [] if wait_seconds is None else [wait_seconds]
        self._folder = folder
        self._every_n_steps = every_n_steps

    def session_begun(self) -> None:
        """Count from where the session begins."""
        self._next = self.step + 1
        self._interval: Optional[progress.Interval] = None

    def fetches(self) -> Any:
        """Return the scalars, and how long the step waited."""
        return self._fetches

    def step_done(self, run_context: Any, run_values: Any) -> None:
        """Write, when it is time."""
        del run_context
        scalars, waited = run_values.results
        if self._interval is not None:
            self._interval.waiting += float(sum(waited))
        if self.step >= self._next:
            scalars = {tag: float(one) for tag, one in scalars.items()}
            if self._interval is not None:
                seconds = max(self._interval.seconds(), 1e-9)
                steps = self.step - self._interval.step
                scalars['speed/steps_per_second'] = steps / seconds
                if waited:
                    share = min(1.0, self._interval.waiting / seconds)
                    scalars['speed/waiting_for_data'] = share
            self._interval = progress.Interval(self.step)
            write(self._folder, self.step, scalars)
            self._next = self.step - self.step % self._every_n_steps + self._every_n_steps


class TrainingPictures(global_steps.GlobalStepHook):
    """Draws examples of a training batch, as the network gets them, with their targets.

    Args:
        draw: see `ExamplePictures`; called without outputs.
        batch: features and labels.
        folder: of the events.
        every_n_steps: pictures after a session's first step, and when the global step is a multiple
            of it.
        count: how many examples are drawn.
    """

    sees_each_step = False  # Each would have to keep its images.

    def __init__(
        self,
        draw: Draw,
        batch: Tuple[Features, Labels],
        folder: str,
        every_n_steps: int,
        count: int = 4,
    ):
        self._draw = draw
        self._folder = folder
        self._every_n_steps = every_n_steps
        self._count = count
        self._batch = tf.nest.map_structure(lambda one: one[:count], batch)

    def session_begun(self) -> None:
        """Count from where the session begins."""
        self._next = self.step + 1

    def fetches(self) -> Any:
        """Return the examples to draw."""
        return self._batch

    def step_done(self, run_context: Any, run_values: Any) -> None:
        """Draw, when it is time."""
        del run_context
        if self.step < self._next:
            return
        self._next = self.step - self.step % self._every_n_steps + self._every_n_steps
        features, labels = run_values.results
        drawn = {
            f'training/{index}': self._draw(_example(features, index), {}, _example(labels, index))
            for index in range(len(features[SOURCE_ID]))
        }
        pictures = {tag: one for tag, one in drawn.items() if one is not None}
        write(self._folder, self.step, {}, pictures)


class TrainingHistograms(global_steps.GlobalStepHook):
    """Writes summaries of the graph when `TrainingScalars` writes scalars.

    Unlike `tf.compat.v1.train.SummarySaverHook` it counts steps exactly, where a run reads the
    global step after its update too, and where a loop runs several steps in one call.

    Args:
        summary: string scalar, a serialized `Summary`; computed only when it is written.
        folder: of the events.
        every_n_steps: events when the global step is a multiple of it.
    """

    sees_each_step = False  # Each would have to compute its histograms.

    def __init__(self, summary: tf.Tensor, folder: str, every_n_steps: int):
        self._summary = summary
        self._folder = folder
        self._every_n_steps = every_n_steps

    def session_begun(self) -> None:
        """Count from where the session begins."""
        self._next = self.step + 1

    def fetches(self) -> Any:
        """Return the summary, when it is time."""
        return [self._summary] if self.step + 1 >= self._next else []

    def step_done(self, run_context: Any, run_values: Any) -> None:
        """Write, when it is time."""
        del run_context
        if not run_values.results:
            return
        writer = writer_of(self._folder)
        writer.add_summary(run_values.results[0], self.step)
        writer.flush()
        self._next = self.step - self.step % self._every_n_steps + self._every_n_steps


def training_hooks(
    scalars: Mapping[str, tf.Tensor],
    folder: str,
    every_n_steps: int,
    wait_seconds: Optional[tf.Tensor] = None,
) -> List[tf1.train.SessionRunHook]:
    """Return the hooks that write events of training.

    Args:
        scalars: float32 scalars by tag.
        folder: of the events.
        every_n_steps: how often; 0: not at all.
        wait_seconds: see `TrainingScalars`.
    """
    if not every_n_steps:
        return []
    hooks: List[tf1.train.SessionRunHook] = [
        TrainingScalars(scalars, folder, every_n_steps, wait_seconds)
    ]
    merged = tf1.summary.merge_all()
    if merged is not None:
        hooks.append(TrainingHistograms(merged, folder, every_n_steps))
    return hooks


def histograms(variables: Sequence[tf.Variable]) -> None:
    """Add a histogram summary for each variable to the current graph."""
    for variable in variables:
        tf1.summary.histogram(f'variables/{variable.name.partition(":")[0]}', variable)


def write(
    folder: str,
    step: int,
    scalars: Mapping[str, float],
    pictures: Optional[Mapping[str, np.ndarray]] = None,
) -> None:
    """Write an event.

    Args:
        folder: of the events.
        step: the global step that it is of.
        scalars: by tag.
        pictures: uint8 [height, width, 3], by tag.
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
    writer = writer_of(folder)
    writer.add_summary(summary, step)
    writer.flush()


def writer_of(folder: str) -> tf1.summary.FileWriter:
    """Return the one writer of a folder's events, which hooks and Estimators use."""
    with tf.Graph().as_default():  # It refuses to be made in eager mode.
        return tf1.summary.FileWriterCache.get(folder)


def offer_examples(features: Features, outputs: Tensors, labels: Optional[Labels]) -> None:
    """Leave an evaluation's batches where an `ExamplePictures` hook of its session finds them.

    The model function knows the tensors, and whoever runs the evaluation knows the folder.
    """
    tf1.get_collection_ref(_EXAMPLES)[:] = [(features, outputs, labels or {})]


class ExamplePictures(tf1.train.SessionRunHook):
    """Keeps the first examples of an evaluation, to draw them when its metrics are known.

    Args:
        draw: makes the picture of one example from features, outputs and labels without their batch
            dimension, and what to show; None where there is nothing to draw.
        folder: of the events.
        count: how many examples are drawn.
        png_folder: the pictures are written there too, as `<number>_<source>.png`; '' for nowhere.
        files: further files of an example, by the end of their names, that go to `png_folder`.
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
        self._files_of = files if png_folder else None
        self._folder = folder
        self._count = count
        self._png_folder = png_folder
        self._fetches: Any = None
        self._examples: List[Tuple[Arrays, Arrays, Optional[Arrays]]] = []

    def begin(self) -> None:
        """Cut what is fetched down to what will be drawn."""
        (batches,) = tf1.get_collection(_EXAMPLES)
        # Fetched at each step, so that all steps run the same compiled graph.
        self._fetches = tf.nest.map_structure(lambda batch: batch[: self._count], batches)

    def after_create_session(self, session: tf1.Session, coord: Any) -> None:
        """Forget the examples of the evaluation before."""
        self._examples = []

    def before_run(
        self, run_context: tf1.train.SessionRunContext
    ) -> Optional[tf1.train.SessionRunArgs]:
        """Ask for the first examples of the batch."""
        return tf1.train.SessionRunArgs(self._fetches)

    def after_run(
        self, run_context: tf1.train.SessionRunContext, run_values: tf1.train.SessionRunValues
    ) -> None:
        """Keep what is still to be kept."""
        features, outputs, labels = run_values.results
        batch_size = len(next(iter(outputs.values())))
        for index in range(min(batch_size, self._count - len(self._examples))):
            features_of, outputs_of, labels_of = (
                _example(batch, index) for batch in (features, outputs, labels)
            )
            self._examples.append((features_of, outputs_of, labels_of or None))

    def write(self, step: int, shown: Shown = AS_CONFIGURED) -> None:
        """Draw the examples; writes them as events, and as files where these are asked for.

        Args:
            step: the global step that they are of.
            shown: how much of what was found in them.
        """
        drawn = {}
        for number, (features, outputs, labels) in enumerate(self._examples, 1):
            picture = self._draw(features, outputs, labels, shown)
            if picture is not None:
                drawn[_file_name(number, features[SOURCE_ID])] = picture
        named = {f'examples/{index}': picture for index, picture in enumerate(drawn.values())}
        write(self._folder, step, {}, named)
        if self._png_folder:
            tf.io.gfile.makedirs(self._png_folder)
            for name, picture in drawn.items():
                visualization.write_png(os.path.join(self._png_folder, f'{name}.png'), picture)
            self._write_files()

    def _write_files(self) -> None:
        if self._files_of is None:
            return
        for number, (features, outputs, _) in enumerate(self._examples, 1):
            name = _file_name(number, features[SOURCE_ID])
            for suffix, content in self._files_of(features, outputs).items():
                with tf.io.gfile.GFile(os.path.join(self._png_folder, name + suffix), 'wb') as file:
                    file.write(content)


def _file_name(number: int, source_id: bytes) -> str:
    """`003_photo` for the third example, `photos/photo.jpg`."""
    name = os.path.basename(tf.compat.as_str_any(source_id))
    return f'{number:03d}_{os.path.splitext(name)[0]}'


def _example(batch: Dict[str, np.ndarray], index: int) -> Dict[str, Any]:
    # Copies: a view would keep its whole batch.
    return {name: copy.copy(values[index]) for name, values in batch.items()}
