"""`--mode=benchmark`, as a function of the options of a run."""

from __future__ import annotations

from typing import Optional, Tuple

from estimator_lib import errors
from model_fns import build_task
from model_fns.cli import chosen_models, flag_configs
from model_fns.cli.run_options import RunOptions
from vision_extras.benchmark import benchmark


def run(options: RunOptions) -> None:
    """Measure every export format of a checkpoint, and print a row for each.

    Raises:
        errors.UserError: an option is missing or not usable, or no format can be measured.
    """
    options.require('model_dir')
    settings = benchmark.Settings(
        [name.strip() for name in (options.exports or '').split(',') if name.strip()],
        options.batch_size,
        options.threads,
        read_size(options.image_size),
    )
    benchmark.choose_writers(settings.exports)  # before anything is loaded
    config = flag_configs.load_config(options)
    task = build_task(config, options.mode)
    checkpoint = chosen_models.chosen_checkpoint(options)
    folder = chosen_models.results_dir(options)
    lines = benchmark.benchmark(task, config, checkpoint, folder, settings)
    print('\n'.join(lines))
    print(f'{benchmark.CSV_FILE} and {benchmark.PNG_FILE}: {folder}')


def read_size(text: Optional[str]) -> Optional[Tuple[int, int]]:
    """Return height and width from `480x640`, or `480` for both; None for no text.

    Raises:
        errors.UserError: the text is no size.
    """
    if not text:
        return None
    sides = text.split('x')
    if len(sides) > 2 or not all(side.isdecimal() and int(side) for side in sides):
        raise errors.UserError(
            f'--image_size={text}: no size; expected HEIGHTxWIDTH in pixels, such as 480x640, or '
            'one side for both.'
        )
    return int(sides[0]), int(sides[-1])
