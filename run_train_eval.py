"""Front door: trains, evaluates, exports and runs the model of a pipeline config.

    run_train_eval.py --model_dir=DIR [--pipeline_config_path=FILE] [--mode=train_and_evaluate]

Without a config it runs the embedded demo.
"""

from __future__ import annotations

import gc
import logging
import os
import shlex
import sys
import types
from typing import TYPE_CHECKING, List, Optional, Sequence

# Modules that are slow to import, or missing in an unsupported Python, are imported on use.
if TYPE_CHECKING:
    from absl import flags

    from model_fns.cli.run_options import RunOptions


def _log_level(values: flags.FlagValues) -> int:
    """Return the level of `logging` that `--verbosity` asks for."""
    levels = {-3: logging.CRITICAL, -2: logging.ERROR, -1: logging.WARNING, 0: logging.INFO}
    return levels.get(values.verbosity, logging.DEBUG)


def run(arguments: Sequence[str]) -> None:
    """Run the command line."""
    from estimator_lib import environment, logs
    from model_fns.cli import flag_parsing

    values = flag_parsing.parse_flags(arguments)
    if values.help or values.helpfull or values.helpshort:
        print(f'{__doc__}\nFlags:\n{values.get_help()}')
        return
    level = _log_level(values)
    logs.configure(level)
    # TensorFlow reads it at import; its build would report missing GPU libraries as errors.
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3' if level > logging.DEBUG else '0')
    # Logged before the import of TensorFlow, which takes seconds.
    command = f'{environment.front_door_command()} {shlex.join(arguments[1:])}'
    logger = logging.getLogger('estimator_lib')
    logger.info('%s (%s)', command, environment.versions())
    logger.info('%s', environment.describe_kernels())
    front_door = _import_front_door()
    front_door.run(run_options(values))


def run_options(values: flags.FlagValues) -> RunOptions:
    """Convert the parsed flags to the options of a run."""
    import dataclasses

    from model_fns.cli.run_options import RunOptions

    names = [field.name for field in dataclasses.fields(RunOptions) if field.name != 'model_dirs']
    options = {name: values[name].value for name in names}
    # Flags that may repeat have lists.
    options.update({key: tuple(one) for key, one in options.items() if isinstance(one, list)})
    # As of any other flag, the last value counts, but for a comparison.
    options['model_dirs'] = options['model_dir'] or ()
    options['model_dir'] = next(reversed(options['model_dirs']), None)
    return RunOptions(**options)


def _import_front_door() -> types.ModuleType:
    """Import the front door, and TensorFlow with it.

    The garbage collector would take a fifth of the import's time and free nothing.
    """
    from estimator_lib import environment, logs

    collects = gc.isenabled()
    gc.disable()
    try:
        with environment.bypass_setuptools():
            logs.silence_tensorflow()
            from model_fns.cli import front_door
    finally:
        if collects:
            gc.enable()
    return front_door


def main(arguments: Optional[List[str]] = None) -> None:
    """Run; the exit status is 0, or that of `programs.guard`: 2, or 128 and the signal's number."""
    try:
        from estimator_lib.processes import programs
    except ImportError as error:
        print(f'error: {error}', file=sys.stderr)
        sys.exit(2)
    with programs.guard():
        run(sys.argv if arguments is None else arguments)


if __name__ == '__main__':
    main()
