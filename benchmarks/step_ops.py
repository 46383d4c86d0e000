"""Compares the ops of a training step with those of the bare network's two passes.

    python -m benchmarks.step_ops [--models=resnet_v1_50,retinanet_resnet50] [--batch_size=2]

The step is the engine's: the next batch, the network, targets, losses, gradients, optimizer and
updates. "Bare" is the forward and backward pass of the same network on a constant batch, see
`benchmarks.memory`. Both are traced on one thread, so that an op takes the time of one processor;
they take turns, and the least of each op counts, for other programs on the machine lengthen it and
never shorten it. `IteratorGetNext` alone is no work: it is what the step waits for its batch. What
kinds of ops take is printed side by side, and the ten costliest ops of the step with what the bare
network's op of that name takes, if it has one; and what a run takes of the processor, untraced.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import tempfile
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from benchmarks import measuring, memory, op_times, recipes

THREADS = 1
DEFAULT_MODELS = ['resnet_v1_50', 'retinanet_resnet50']

Ops = Mapping[op_times.Op, float]


class Kind(NamedTuple):
    """Ops of a kind: what all of them take in milliseconds, and how many there are."""

    kind: str
    step_ms: float
    step_count: int
    bare_ms: float
    bare_count: int


class Costly(NamedTuple):
    """An op of the step.

    Attributes:
        name: in the graph.
        kind: of the op.
        step_ms: what it takes in the step.
        bare_ms: what the op of that name takes in the bare network; None: there is none.
    """

    name: str
    kind: str
    step_ms: float
    bare_ms: Optional[float]


@contextlib.contextmanager
def bare_session(task: Any, config: Any) -> Iterator[Tuple[Any, Any]]:
    """The network's forward and backward pass: a session, and what it fetches."""
    import tensorflow as tf

    from estimator_lib import training

    tf1 = tf.compat.v1
    with tf.Graph().as_default():
        tf1.train.create_global_step()
        fetches = memory.bare_step(task, *memory.constant_batch(config))
        session_config = measuring.on_threads(training.create_session_config(), THREADS)
        with tf1.Session(config=session_config) as session:
            measuring.initialize(session)
            yield session, fetches


class Side(NamedTuple):
    """What one of both sides takes.

    Attributes:
        cpu_ms: of the processor in a whole run that is not traced, with what reads the input.
        ops: milliseconds of each op.
    """

    cpu_ms: float
    ops: Ops


def trace(config: Any, turns: int) -> Dict[str, Side]:
    """Both sides, `step` and `bare`, which are run in turns."""
    from model_fns import build_task

    task = build_task(config)
    found = {'step': Side(math.inf, {}), 'bare': Side(math.inf, {})}
    with contextlib.ExitStack() as stack:
        session, spec = stack.enter_context(measuring.training_session(task, config, THREADS))
        sides = {
            'step': (session, [spec.loss, spec.train_op]),
            'bare': stack.enter_context(bare_session(task, config)),
        }
        for session, fetches in sides.values():
            op_times.trace(session, fetches, 1)  # warms up both kinds of runs
        for _ in range(turns):
            for name, (session, fetches) in sides.items():
                whole = 1000 * measuring.seconds_per_run(session, fetches, 1).cpu
                ops = op_times.trace(session, fetches, 1, warm_up=0)
                found[name] = _least(found[name], Side(whole, ops))
    return found


def _least(one: Side, other: Side) -> Side:
    ops = {**one.ops, **other.ops}
    return Side(
        min(one.cpu_ms, other.cpu_ms),
        {op: min(one.ops.get(op, took), took) for op, took in ops.items()},
    )


def kinds(step: Ops, bare: Ops) -> List[Kind]:
    """The kinds of ops of both sides, first those that take longest in the step."""
    sides = [op_times.by_kind(step), op_times.by_kind(bare)]
    nothing = (0.0, 0)
    found = [
        Kind(kind, *sides[0].get(kind, nothing), *sides[1].get(kind, nothing))
        for kind in {**sides[0], **sides[1]}
    ]
    return sorted(found, key=lambda one: -one.step_ms)


def costliest(step: Ops, bare: Ops, count: int = 10) -> List[Costly]:
    """The ops that take longest in the step."""
    by_name = {op.name: took for op, took in bare.items()}
    return [
        Costly(op.name, op.kind, took, by_name.get(op.name))
        for op, took in op_times.costliest(step, count)
    ]


def _sum(name: str, some: Sequence[Kind]) -> Kind:
    return Kind(name, *(sum(one[column] for one in some) for column in range(1, 5)))


def table(step: Ops, bare: Ops, rows: int = 20) -> str:
    """Kinds of ops that take longest in the step, the sums of all, and the costliest ops."""
    found = kinds(step, bare)
    shown = [*found[:rows], _sum('all others', found[rows:]), _sum('all', found)]
    lines = [f'{"kind: ms (number of ops)":48s} {"step":>16s} {"bare":>16s} {"more":>9s}']
    for one in shown:
        sides = (
            f'{took:9.1f} ({number:4d})'
            for took, number in ((one.step_ms, one.step_count), (one.bare_ms, one.bare_count))
        )
        lines.append(f'{one.kind:48s} {" ".join(sides)} {one.step_ms - one.bare_ms:+9.1f}')
    lines.append(f'\n{"costliest ops of the step: ms":48s} {"step":>8s} {"bare":>8s}  name')
    for op in costliest(step, bare):
        of_bare = 'none' if op.bare_ms is None else f'{op.bare_ms:.1f}'
        lines.append(f'{op.kind:48s} {op.step_ms:8.1f} {of_bare:>8s}  {op.name}')
    return '\n'.join(lines)


def measure(config: Any, turns: int) -> Dict[str, Any]:
    """Traces both sides of a model, and prints the table."""
    step, bare = trace(config, turns).values()
    print(table(step.ops, bare.ops))
    print(f'\na run, CPU ms: step {step.cpu_ms:.0f}, bare {bare.cpu_ms:.0f}\n', flush=True)
    return {
        'step_cpu_ms': step.cpu_ms,
        'bare_cpu_ms': bare.cpu_ms,
        'kinds': [one._asdict() for one in kinds(step.ops, bare.ops)],
        'costliest': [one._asdict() for one in costliest(step.ops, bare.ops)],
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    recipes.add_arguments(parser, DEFAULT_MODELS)
    parser.add_argument('--batch_size', type=int, default=0, help="0: the model's, see recipes")
    parser.add_argument('--turns', type=int, default=6, help='steps of each side')
    parser.add_argument('--output', default='benchmark_step_ops.json', help='where the JSON goes')
    arguments = parser.parse_args()
    measuring.quiet()
    from estimator_lib import config as config_lib

    results: Dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.models:
            own = os.path.join(folder, name)
            os.mkdir(own)
            path = recipes.write_config(name, own, arguments.batch_size)
            print(name)
            results[name] = measure(config_lib.load_pipeline_config(path), arguments.turns)
            with open(arguments.output, 'w') as file:
                json.dump(results, file, indent=2)


if __name__ == '__main__':
    main()
