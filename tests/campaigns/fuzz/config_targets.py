"""Targets that read configs, settings and `TF_CONFIG`."""

from __future__ import annotations

import contextlib
import functools
import io
import random
from typing import Any, Callable, Dict

import model_fns
from estimator_lib import config as config_lib
from estimator_lib import distribution
from estimator_lib.commands import check
from tests.campaigns.fuzz import valid_inputs
from tests.campaigns.fuzz.mutations import mutate_json, mutate_message, mutate_text
from tests.campaigns.fuzz.workspace import Workspace

_GRAPHS = 0.04  # share of the accepted configs that a training graph is built of


def targets(workspace: Workspace) -> Dict[str, Callable[[random.Random], None]]:
    """Return the targets by name."""
    functions = (config, setting, tf_config)
    return {one.__name__: functools.partial(one, workspace) for one in functions}


def config(workspace: Workspace, generator: random.Random) -> None:
    """Use a pipeline config: a malformed text, or a message with odd values."""
    kind = generator.choice(valid_inputs.KINDS)
    if generator.random() < 0.5:
        text = valid_inputs.config_text(workspace.folder, kind)
        path = workspace.file('malformed.config', mutate_text(generator, text))
        loaded = config_lib.load_pipeline_config(path)
    else:
        loaded = mutate_message(generator, workspace.configs[kind])
    _use(loaded, generator.random() < _GRAPHS)


def setting(workspace: Workspace, generator: random.Random) -> None:
    """Apply malformed values of `--set` and `--config_override`."""
    settings = ['train_config.batch_size=8', 'eval_input_reader.0.name=x', 'model={ssd{}}']
    override = 'train_config { optimizer { sgd_optimizer { } } }'
    if generator.random() < 0.5:
        text = mutate_text(generator, generator.choice(settings)).decode(errors='replace')
        arguments = ([], [text])
    else:
        arguments = ([mutate_text(generator, override).decode(errors='replace')], [])
    text = valid_inputs.config_text(workspace.folder, 'classification')
    _use(config_lib.parse_pipeline_config(text, 'text', *arguments), False)


def _use(loaded: Any, with_graph: bool) -> None:
    model_fns.validate(loaded)
    model_fns.make_task(loaded)
    if with_graph:
        with contextlib.redirect_stdout(io.StringIO()):
            check.check(model_fns.make_task, loaded, validate=model_fns.validate)


def tf_config(workspace: Workspace, generator: random.Random) -> None:
    """Read `TF_CONFIG`, and plan a run in such a cluster."""
    text = mutate_json(generator, valid_inputs.CLUSTER).decode(errors='replace')
    cluster = distribution.read_tf_config({'TF_CONFIG': text})
    distribution.create_plan(workspace.configs['classification'], cluster)
