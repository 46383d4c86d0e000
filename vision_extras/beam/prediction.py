"""`--mode=predict` as a Beam pipeline: files of images to pictures, and to one file of predictions.

Images are predicted as without Beam (`estimator_lib.commands.predict`). A worker takes a few files
at a time; a TFRecord file is not divided.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

import apache_beam as beam

from estimator_lib import errors
from estimator_lib.commands import predict, prediction_files
from estimator_lib.export import exported_model
from estimator_lib.task import Task
from model_fns.datasets import image_sources
from model_fns.datasets.image_sources import Decoder, File, Images
from vision_extras.beam import runs

_SKIPPED = 'skipped'
_MOST_FILES = 32  # that a worker takes at a time

OpenModel = Callable[[], Tuple[exported_model.Predictor, Optional[Task]]]


def predict_images(
    open_model: OpenModel,
    images: Images,
    decoder: Callable[[], Decoder],
    output_dir: str,
    options: predict.Options,
    runner: runs.Runner,
) -> List[str]:
    """Predict images as `predict.predict_images` does, in a Beam pipeline.

    Args:
        open_model: loads the model and its task in a worker; it can be pickled.
        images: files that all workers can read.
        decoder: makes the decoder of a worker; it can be pickled.
        output_dir: a folder that all workers can write to.
        options: how.
        runner: runs the pipeline.

    Returns:
        The reasons for the skipped images, sorted by the images' names.

    Raises:
        errors.DataError: no image can be read, or one cannot and `options.skips` is False.
        errors.UserError: the pipeline cannot be run.
    """
    prediction_files.PredictionFiles(output_dir, options.output_format)  # the folder can be made
    report = os.path.join(output_dir, 'skipped.json')
    left = runs.Staged([report])
    left.clear()
    try:
        with runs.pipeline(runner) as pipeline:
            work = _Predict(open_model, decoder, output_dir, options)
            _build(pipeline, list(images.files()), work, output_dir, options, report)
        skipped = sorted(runs.read_json(report))
    finally:
        left.clear()
    if skipped and not options.skips:
        raise errors.DataError(skipped[0])
    predict.refuse_nothing(images.count() - len(skipped), skipped)
    return skipped


def _build(
    pipeline: beam.Pipeline,
    files: Sequence[File],
    work: beam.DoFn,
    output_dir: str,
    options: predict.Options,
    report: str,
) -> None:
    """Add the steps from files to the predictions file, and to the list of skipped images."""
    outputs = (
        pipeline
        | 'Files' >> beam.Create(files)
        | 'Spread' >> beam.Reshuffle()
        | 'Few' >> beam.BatchElements(min_batch_size=1, max_batch_size=_MOST_FILES)
        | 'Predict' >> beam.ParDo(work).with_outputs(_SKIPPED, main='entries')
    )
    _ = (
        outputs['entries']
        | 'One file' >> beam.Map(lambda entry: (None, entry))
        | 'Gather' >> beam.GroupByKey()
        | 'Write' >> beam.Map(_write, beam.pvalue.AsList(outputs[_SKIPPED]), output_dir, options)
    )
    _ = (
        outputs[_SKIPPED]
        | 'One list' >> beam.Map(lambda problem: (None, problem))
        | 'Gather skipped' >> beam.GroupByKey()
        | 'Report' >> beam.Map(lambda pair: runs.write_json(report, sorted(set(pair[1]))))
    )


class _Predict(beam.DoFn):
    """Step from files to entries of the predictions (tuples); skipped images are a tagged output.

    Args:
        open_model: see `predict_images`.
        decoder: see there.
        output_dir: of the pictures.
        options: how.
    """

    def __init__(
        self,
        open_model: OpenModel,
        decoder: Callable[[], image_sources.Decoder],
        output_dir: str,
        options: predict.Options,
    ):
        self._open_model = open_model
        self._make_decoder = decoder
        self._output_dir = output_dir
        # Beam would give the same image again and again to a worker that fails.
        self._options = dataclasses.replace(options, skips=True)

    def setup(self) -> None:
        self._predictor, self._task = self._open_model()
        self._decode = self._make_decoder()

    def process(self, files: Sequence[File]) -> Iterator[Any]:
        images = itertools.chain.from_iterable(file.images(self._decode) for file in files)
        written = prediction_files.PredictionFiles(
            self._output_dir, self._options.output_format, atomically=True
        )
        skipped = predict.predict_into(
            written, self._predictor, self._task, images, self._options, shows_progress=False
        )
        for entry in written.entries:
            yield tuple(entry)
        for problem in skipped:
            yield beam.pvalue.TaggedOutput(_SKIPPED, problem)


def _write(
    group: Tuple[None, Sequence[tuple]],
    skipped: Sequence[str],
    output_dir: str,
    options: predict.Options,
) -> None:
    """Write the predictions; an image that came twice has one entry."""
    if skipped and not options.skips:
        return
    files = prediction_files.PredictionFiles(output_dir, options.output_format, atomically=True)
    entries = (prediction_files.Entry(*entry) for entry in group[1])
    files.entries.extend({entry.name: entry for entry in entries}.values())
    files.write()
