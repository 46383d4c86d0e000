"""Targets of the extras: past runs, artifacts, and options of runners."""

from __future__ import annotations

import functools
import random
from typing import Callable, Dict

from estimator_lib.run_records import run_file
from tests.campaigns.fuzz import valid_inputs
from tests.campaigns.fuzz.mutations import mutate_bytes, mutate_json, mutate_message, mutate_text
from tests.campaigns.fuzz.workspace import Workspace
from vision_extras.beam import runs
from vision_extras.recover import recovering
from vision_extras.recover.artifacts import reading, running
from vision_extras.recover.kernels import Kernels
from vision_extras.replay import shapes


def targets(workspace: Workspace) -> Dict[str, Callable[[random.Random], None]]:
    """Return the targets by name."""
    functions = (past_run, damaged_graph, runner)
    return {one.__name__: functools.partial(one, workspace) for one in functions}


def past_run(workspace: Workspace, generator: random.Random) -> None:
    """Read which processes a run had, from a malformed list of its starts."""
    folder = workspace.copy(workspace.model)
    content = valid_inputs.RUN_FILES[run_file.RUN_FILE]
    (folder / run_file.RUN_FILE).write_bytes(mutate_json(generator, content))
    shapes.one_shape(str(folder), 1, 5)


def damaged_graph(workspace: Workspace, generator: random.Random) -> None:
    """Read a frozen graph with malformed nodes, as `recover-config` does before it runs one."""
    graph_def = workspace.frozen_graph
    if generator.random() < 0.7:
        content = mutate_message(generator, graph_def).SerializeToString()
    else:
        content = mutate_bytes(generator, graph_def.SerializeToString())
    artifact = reading.read(workspace.file('malformed.pb', content))
    with recovering._explained(artifact):
        Kernels(artifact).shapes()
        for layer in artifact.graph.layers():
            artifact.graph.rate(layer.name)
        running.prepares_pixels(artifact.graph, 'image_tensor')


def runner(workspace: Workspace, generator: random.Random) -> None:
    """Choose a runner by `--runner` and `--runner_options`."""
    del workspace
    name = generator.choice(('DirectRunner', 'os.system', 'FlinkRunner'))
    if generator.random() < 0.5:
        name = mutate_text(generator, name).decode(errors='replace')
    valid = '--direct_num_workers=2 --region="a b"' + generator.choice(('', ' --help'))
    options = mutate_text(generator, valid)
    runs.parse_runner(name, options.decode(errors='replace'))
