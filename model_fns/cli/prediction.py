"""`--mode=predict`, as a function of the options of a run."""

from __future__ import annotations

import dataclasses
import functools
import glob
import logging
import math
from typing import List, Optional, Sequence, Tuple

from estimator_lib import errors, texts
from estimator_lib.commands import predict
from estimator_lib.config import validation
from estimator_lib.drawing.tiling import Tiling
from estimator_lib.evaluation import tiles
from estimator_lib.processes import journals
from estimator_lib.task import AS_CONFIGURED, Shown, Task
from estimator_lib.task_interfaces.image_format import COLOR
from model_fns import extras
from model_fns.cli import chosen_models, video_prediction
from model_fns.cli.run_options import RunOptions
from model_fns.datasets import image_sources
from model_fns.structures import images
from protos import pipeline_pb2

log = logging.getLogger('estimator_lib')


def predict_files(options: RunOptions) -> None:
    """Predict the images or videos that the options name, and print their number.

    Raises:
        errors.UserError: an option is missing or not usable, or nothing can be predicted.
    """
    _refuse_unusable(options)
    runner = None
    if options.runner:
        beam_runs = extras.load('beam.runs', '--runner')
        runner = beam_runs.parse_runner(options.runner, options.runner_options)
    tiling = read_tiling(options)
    predictor, task, source = chosen_models.chosen_model(options)
    if tiling is None and source.config is not None:
        _warn_of_tiles(source.config)
    max_pixels = (
        images.MAX_PIXELS if source.config is None else validation.pixel_limit(source.config)
    )
    decoding = options.exif == 'apply', max_pixels
    image_format = COLOR if task is None else task.image_format
    of_channels = image_format, options.additional_channels
    sources = image_sources.find_images(options.images, *decoding, *of_channels)
    sources.refuse_overwriting(options.output_dir)
    worth_showing = (
        AS_CONFIGURED if task is None else task.presentation.worth_showing(predictor.metrics)
    )
    if options.score_threshold is None and worth_showing.least_score is not None:
        text = 'scores below %.3g are hidden: the threshold with the best F1 in the evaluation'
        log.info(text, worth_showing.least_score)
    prediction_options = predict.Options(
        Shown(options.score_threshold, options.top_k, _class_indices(options.only_class, task)),
        worth_showing,
        options.output_format,
        options.raw,
        skips=options.on_error == 'skip',
        tiling=tiling,
        pictures=options.pictures,
        crops=options.crops,
    )
    output_dir, videos = options.output_dir, sources.videos()
    if videos:
        if image_format.additional:
            raise errors.UserError(
                f'--images: a video has three channels, and the model takes '
                f'{image_format.channels}; expected images.'
            )
        if runner is not None:
            raise errors.UserError(
                f'--runner={options.runner}: videos are predicted without one; leave it out.'
            )
        skipped = video_prediction.predict_videos(
            predictor, task, videos, output_dir, prediction_options, *decoding
        )
        _print_predicted('videos', len(videos), skipped, output_dir)
        return
    count = sources.count()
    if runner is None:
        skipped = predict.predict_images(
            predictor,
            task,
            sources,
            output_dir,
            prediction_options,
            count,
            _identity(options, source),
        )
    else:
        skipped = extras.load('beam.prediction', '--runner').predict_images(
            functools.partial(chosen_models.open_model, source),
            sources,
            functools.partial(image_sources.Decoder, *decoding, *of_channels),
            output_dir,
            prediction_options,
            runner,
        )
    _print_predicted('images', count, skipped, output_dir)


def _warn_of_tiles(config: pipeline_pb2.TrainEvalPipelineConfig) -> None:
    """Warn of a model that was evaluated by tiles, with the flags that predict by the same."""
    tiling = tiles.from_config(config.eval_config)
    if tiling is not None:
        flags = f'--tile={tiling.size} --overlap={tiling.overlap}'
        flags += ' --whole_image' if tiling.whole else ''
        log.warning('the model was evaluated by tiles: %s predicts as its evaluation does', flags)


def _refuse_unusable(options: RunOptions) -> None:
    for name in ('images', 'output_dir'):
        options.require(name)
    if options.score_threshold is not None and math.isnan(options.score_threshold):
        raise errors.UserError(
            f'--score_threshold is {options.score_threshold}; expected a number from 0.'
        )
    if options.raw and options.output_format != 'json':
        raise errors.UserError(
            f'--raw: {options.output_format} has no place for it; expected json.'
        )
    if options.runner_options and not options.runner:
        raise errors.UserError(
            f'--runner_options={options.runner_options}: they are flags of a runner; expected '
            '--runner too.'
        )


def _class_indices(names: Sequence[str], task: Optional[Task]) -> Optional[Tuple[int, ...]]:
    """Return the positions of the classes that are kept; None: all.

    Raises:
        errors.UserError: there is no such class, or no class has a name.
    """
    if not names:
        return None
    if task is None:
        raise errors.UserError(
            f'--only_class={names[0]}: the model has no names of classes, as there is no '
            'pipeline.config in it; expected --pipeline_config_path, or no --only_class.'
        )
    known = list(task.presentation.class_names)
    for name in names:
        if name not in known:
            raise errors.UserError(
                f'--only_class={name}: no class of the model{errors.did_you_mean(name, known)}'
            )
    return tuple(index for index, name in enumerate(known) if name in names)


def _identity(options: RunOptions, source: chosen_models.ModelSource) -> List[str]:
    """Return what must be equal for another start to continue: options, config and model."""
    # Deterministic: maps have no order, and their bytes differ between processes.
    config = source.config and source.config.SerializeToString(deterministic=True)
    files = [source.path, *sorted(glob.glob(f'{glob.escape(source.path)}.*'))]
    return journals.identify([options, config], files)


def _print_predicted(kind: str, count: int, skipped: Sequence[str], output_dir: str) -> None:
    print(f'{kind} predicted: {count - len(skipped)}, skipped: {len(skipped)}; {output_dir}')
    for problem in skipped:
        print(f'skipped: {texts.printable(problem)}')


def read_tiling(options: RunOptions) -> Optional[Tiling]:
    """Return the tiling that the options ask for; None where they ask for none.

    Raises:
        errors.UserError: the options contradict each other.
    """
    if options.tile is None:
        for name in ('whole_image', 'overlap'):
            if not options.has_default(name):
                raise errors.UserError(f'--{name} has no effect without --tile.')
        return None
    tiling = Tiling.create(options.tile, options.overlap, options.whole_image)
    if tiling.overlap >= options.tile:
        raise errors.UserError(
            f'--overlap is {tiling.overlap}; expected less than --tile, {options.tile}.'
        )
    return tiling


def with_tiles(options: RunOptions) -> RunOptions:
    """Return options of an evaluation whose config has the tiles that they ask for.

    Every field is set, so that nothing of the config's own tiles stays.

    Raises:
        errors.UserError: the options contradict each other.
    """
    tiling = read_tiling(options)
    if tiling is None:
        return options
    fields = {
        'size': tiling.size,
        'overlap': tiling.overlap,
        'whole_image': str(tiling.whole).lower(),
    }
    settings = [f'{tiles.FIELD}.{name}={value}' for name, value in fields.items()]
    return dataclasses.replace(options, set=(*options.set, *settings))
