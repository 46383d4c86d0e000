"""`--data`: from a data set to a config with reasons, and to the run of it."""

from __future__ import annotations

import importlib
import json
import logging
import os
import shlex
import types
from typing import Callable, Dict, List, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib import config as config_lib
from estimator_lib import distribution, environment, errors
from estimator_lib.checkpoints import checkpoint_files, model_dirs
from estimator_lib.commands import check, outline, step_times
from estimator_lib.config import config_files, field_settings
from estimator_lib.data import epochs
from estimator_lib.run_records import run_file
from model_fns import build_task, durations_in_steps, make_task, validate
from model_fns.cli import builtin_configs
from model_fns.cli.run_options import RunOptions
from model_fns.datasets import readers
from model_fns.datasets.recognition import archives, reading, recognizers
from model_fns.datasets.recognition.layouts import DataSet
from model_fns.recipes import decisions
from model_fns.recipes import facts as facts_lib
from model_fns.recipes.decisions import Wishes
from model_fns.recipes.facts import Facts
from model_fns.recipes.writing import Recipe
from model_fns.structures import label_map_files
from protos import pipeline_pb2

log = logging.getLogger('estimator_lib')

# The modules of the decisions of each task, of `task` in `flags.ini`. They are imported on use.
_RECIPES = {
    'classification': 'model_fns.classification.recipe',
    'detection': 'model_fns.detection.recipe',
    'rotated': 'model_fns.detection.recipe',
    'instances': 'model_fns.detection.recipe',
    'keypoints': 'model_fns.detection.recipe',
    'segmentation': 'model_fns.segmentation.recipe',
}
OPTIONS = ('data', 'minutes', 'epochs', 'task', 'size', 'weights')
_FOLDER = 'data'  # of the run: lists, label map, the files of an archive
_COMMAND_FILE = 'command.json'
_MOST_NAMED = 6


def check_options(options: RunOptions) -> None:
    """Check the options of a run that begins with data.

    Raises:
        errors.UserError: one is missing, or two exclude each other.
    """
    set_ones = [name for name in OPTIONS if not options.has_default(name)]
    if not options.data:
        if options.mode == 'create_config' or set_ones:
            name = f'--{set_ones[0]}' if set_ones else f'--mode={options.mode}'
            raise errors.UserError(f'{name} needs --data, the path of a data set.')
        return
    options.require('model_dir')
    for name in ('pipeline_config_path', 'checkpoint_dir'):
        if getattr(options, name):
            raise errors.UserError(f'--data makes a config; leave out --{name}.')
    if options.mode == 'create_config' and options.config_override:
        raise errors.UserError(
            f'--config_override={options.config_override[0]}: expected --set with '
            '--mode=create_config.'
        )
    if options.minutes is not None and options.epochs is not None:
        raise errors.UserError(
            f'--minutes={options.minutes:g} and --epochs={options.epochs:g}: expected one of them.'
        )
    if distribution.read_tf_config() is not None:
        raise errors.UserError(
            f'--data={options.data} times the steps of one machine; in a cluster, expected '
            '--pipeline_config_path with a config of --mode=create_config.'
        )


def prepare(options: RunOptions) -> bool:
    """Write the config of a run, unless an earlier call has; return whether the run is finished.

    Raises:
        errors.UserError: the folder has another run, or the data set cannot be used.
    """
    folder = options.model_dir
    command = {name: getattr(options, name) for name in OPTIONS if not options.has_default(name)}
    # Absolute: the same command in another folder would be another data set.
    command['data'] = os.path.abspath(options.data)
    saved = config_lib.saved_pipeline_config(folder)
    if saved:
        _check_command(folder, command)
        if options.mode == 'create_config' and options.set:
            raise errors.UserError(
                f'--set={options.set[0]}: {saved} is there already; change it, or use another '
                '--model_dir.'
            )
        return options.mode != 'create_config' and _is_finished(folder, saved)
    model_dirs.ensure_writable(folder)
    recipe, lines = create_recipe(options, os.path.join(folder, _FOLDER))
    # Before the config, whose presence tells later calls that the run has begun.
    command_text = json.dumps(command, indent=1, sort_keys=True) + '\n'
    config_files.write_text(command_text, os.path.join(folder, _FOLDER, _COMMAND_FILE))
    given = [*command.items(), *(('set', setting) for setting in options.set)]
    flags = ' '.join(f'--{name}={shlex.quote(str(value))}' for name, value in given)
    heading = [f'Written by {environment.FRONT_DOOR} {flags}.', *lines, _USE]
    path = os.path.join(folder, config_lib.PIPELINE_CONFIG_NAME)
    config_files.write_text(recipe.text(heading), path)
    log.info('config, with the reasons: %s', path)
    return False


_USE = 'Each field may be changed: docs/config.md has them, --mode=check says what it does.'


def check_config(options: RunOptions) -> None:
    """Run `--mode=check` on the written config, before the first step of its run.

    Raises:
        errors.UserError: there are problems.
    """
    folder = options.model_dir
    if checkpoint_files.latest_step(folder):
        log.info('continuing the run in %s', folder)
        return
    config = config_lib.load_pipeline_config(config_lib.saved_pipeline_config(folder))
    config = durations_in_steps(config)  # the user may have changed it
    check.check(make_task, config, folder, validate=validate)


def create_recipe(options: RunOptions, folder: str) -> Tuple[Recipe, List[str]]:
    """Decide the config of a data set.

    Args:
        options: of the run.
        folder: for lists, the label map and the files of an archive.

    Returns:
        The recipe, and the lines on what was understood.

    Raises:
        errors.UserError: the data set cannot be used, or not for the task.
    """
    wishes = _wishes(options)
    data = recognizers.recognize(_extracted(options.data, folder))
    task = _choose_task(data, options.task)
    _forget(folder)
    sources = reading.create(data, task, folder)
    facts = facts_lib.collect(sources.train, sources.evaluation, task == 'rotated')
    lines = describe(data, facts, task, wishes.weights, sources.notes)
    for line in lines:
        log.info('%s', line)
    module = importlib.import_module(_RECIPES[task])
    path = builtin_configs.resolve(
        f'{builtin_configs.PREFIX}{module.base_config(task, wishes.weights)}'
    )
    config = config_lib.load_pipeline_config(path)
    config.train_input_reader.CopyFrom(sources.train)
    del config.eval_input_reader[:]
    config.eval_input_reader.add().CopyFrom(sources.evaluation)

    def decide(chosen: Wishes) -> Recipe:
        recipe = Recipe(config_lib.merge_pipeline_configs(config))
        module.decide(recipe, task, facts, chosen, data.mirrored_keypoints)
        _apply_settings(recipe, options.set)  # steps are timed with them
        return recipe

    recipe, seconds = _decide_size(decide, module, wishes)
    batch_size = recipe.config.train_config.batch_size
    num_examples = epochs.known_examples(recipe.config.train_input_reader) or len(facts.train)
    plan = decisions.schedule(wishes, num_examples, batch_size, seconds)
    recipe.decide(*decisions.schedule_decisions(plan, wishes.minutes, module.SCHEDULED_RATE))
    _apply_settings(recipe, options.set)
    for warning in recipe.warnings:
        log.warning('%s', warning)
    return recipe, [*lines, *(f'Warning: {warning}.' for warning in recipe.warnings)]


def _apply_settings(recipe: Recipe, settings: Sequence[str]) -> None:
    """Set the fields that `--set` names, over what was decided."""
    for setting in settings:
        field_settings.apply_setting(recipe.config, setting)
        recipe.set_reason(setting.partition('=')[0].strip(), 'As --set asks for')


def write_improved(config: pipeline_pb2.TrainEvalPipelineConfig, path: str) -> None:
    """Write a detector's config with the remedies of what `--mode=check` warns of.

    Args:
        config: of the user.
        path: of the file; one that exists is not overwritten.

    Raises:
        errors.UserError: there is such a file, or the model is no detector.
    """
    model = config.model.WhichOneof('model')
    if model not in ('ssd', 'faster_rcnn', 'center_net'):
        raise errors.UserError(f'--write_config: the model is {model}; expected a detector.')
    if tf.io.gfile.exists(path):
        raise errors.UserError(f'--write_config: there is a file {path}; expected another name.')
    recipe = Recipe(config_lib.merge_pipeline_configs(config))
    evaluation = next(iter(config.eval_input_reader), config.train_input_reader)
    module = importlib.import_module(_RECIPES['detection'])
    facts = facts_lib.collect(config.train_input_reader, evaluation, module.is_rotated(config))
    module.improve(recipe, facts)
    heading = [f'Written by {environment.FRONT_DOOR} --mode=check --write_config.']
    config_files.write_text(recipe.text(heading), path)
    for reason in recipe.reasons.values():
        print(f'why: {reason}')
    print(f'the config that fits the data: {path}')


def _wishes(options: RunOptions) -> Wishes:
    weights = options.weights or ''
    if weights and ':' not in weights[:4]:  # names of hubs have a prefix
        weights = os.path.abspath(weights)
    minutes = options.minutes
    if minutes is None and options.epochs is None:
        minutes = decisions.DEFAULT_MINUTES
    return Wishes(minutes, options.epochs, options.size, weights)


def _extracted(path: str, folder: str) -> str:
    """Return the path of a data set; that of an archive is extracted below the folder."""
    if not path.lower().endswith('.zip') or not os.path.isfile(path):
        return path
    stem = os.path.splitext(os.path.basename(path))[0]
    return archives.extract(path, os.path.join(os.path.abspath(folder), f'files-{stem}'))


def _choose_task(data: DataSet, wanted: Optional[str]) -> str:
    """Return the task that is asked for, or the usual one of a data set.

    Raises:
        errors.UserError: the annotations do not suffice for it.
    """
    if wanted and wanted not in data.tasks:
        raise errors.UserError(
            f'--task={wanted}: the data ({data.description}) is for {" or ".join(data.tasks)}.'
        )
    return wanted or data.tasks[0]


def _forget(folder: str) -> None:
    """Remove the label map of an interrupted call: the data may have changed since."""
    path = os.path.join(folder, label_map_files.FILE)
    if tf.io.gfile.exists(path):
        tf.io.gfile.remove(path)
    readers.forget_listings()


def describe(
    data: DataSet, facts: Facts, task: str, weights: str, notes: Sequence[str]
) -> List[str]:
    """Return three lines on what was understood: the data, the classes and the task.

    Args:
        data: what was recognized.
        facts: of its annotations.
        task: that was chosen.
        weights: that training starts from; '': none.
        notes: on how the data is read.
    """
    images = f'{len(facts.train):,} images for training, {len(facts.evaluation):,} for evaluation'
    more = ''.join(f'; {note}' for note in notes)
    objects = f'; {facts.num_objects():,} objects' if facts.num_objects() else ''
    left_out = f', {facts.num_left_out:,} more cannot be used' if facts.num_left_out else ''
    height, width = facts.typical_size()
    others = [f'--task={name}' for name in data.tasks if name != task]
    other = f'; {", ".join(others)} are possible too' if others else ''
    return [
        f'Data: {data.description}: {images}{more}.',
        f'Classes: {len(facts.class_names)} ({errors.shortened(facts.class_names, _MOST_NAMED)})'
        f'{objects}{left_out}; images of about {width} x {height} pixels.',
        f'Task: {task}{other}. '
        + (f'Training starts from {weights}.' if weights else 'Training starts from scratch.'),
    ]


def _decide_size(
    decide: Callable[[Wishes], Recipe], module: types.ModuleType, wishes: Wishes
) -> Tuple[Recipe, float]:
    """Decide all fields; with minutes, time steps, and enlarge the input that these pay for.

    Returns:
        The recipe, and the seconds of its steps; 0 where the length is in epochs.
    """
    recipe = decide(wishes)
    if wishes.minutes is None:
        return recipe, 0.0
    seconds = _time_steps(recipe)
    side = module.network_side(recipe)
    images = 60 * wishes.minutes / seconds * recipe.config.train_config.batch_size
    affordable = decisions.affordable_side(side, images, module.ENOUGH_IMAGES, module.USUAL_SIDE)
    # Timed again at the larger size: the steps of a schedule depend on it.
    if wishes.size is None and affordable > side:
        grown = decide(wishes._replace(affordable=affordable))
        if module.network_side(grown) > side:
            return grown, _time_steps(grown)
    return recipe, seconds


def _time_steps(recipe: Recipe) -> float:
    """Return the seconds of a step on this machine."""
    log.info('timing the steps on this machine for %.0f seconds', step_times.SECONDS)
    return step_times.measure(build_task(recipe.config, 'train'), recipe.config)


def _check_command(folder: str, command: Dict[str, object]) -> None:
    """Refuse a folder whose run began with other options.

    Raises:
        errors.UserError: it did, or it is no run of `--data`.
    """
    path = os.path.join(folder, _FOLDER, _COMMAND_FILE)
    known = json.loads(config_files.read_text(path)) if tf.io.gfile.exists(path) else {}
    if known != command:
        names = [name for name in OPTIONS if known.get(name) != command.get(name)]
        given = ', '.join(f'--{name}={known.get(name, "")}' for name in names)
        began = given if known else 'a config'
        raise errors.UserError(
            f'--model_dir={folder} has a run that began with {began}; expected the same, or '
            'another --model_dir. Its own config is trained on without --data.'
        )


def _is_finished(folder: str, path: str) -> bool:
    """Return whether a run has ended as planned, and say so."""
    config = config_lib.load_pipeline_config(path)
    starts = run_file.read_starts(os.path.join(folder, run_file.RUN_FILE))
    steps = config.train_config.num_steps
    is_done = bool(starts) and starts[-1].get('status') == run_file.FINISHED
    if not is_done or checkpoint_files.latest_step(folder) < steps:
        return False
    print(
        f'the run in {folder} is finished, with all {steps:,} steps; another --model_dir begins '
        'a new one'
    )
    print('\n'.join(outline.last_lines(folder, {})))
    return True
