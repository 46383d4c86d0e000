"""`--mode=benchmark`, as a function of the options of a run."""

from __future__ import annotations

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
    config = flag_configs.load_config(options)
    task = build_task(config, options.mode)
    checkpoint = chosen_models.chosen_checkpoint(options)
    folder = chosen_models.results_dir(options)
    lines = benchmark.benchmark(task, config, checkpoint, folder)
    print('\n'.join(lines))
    print(f'{benchmark.CSV_FILE} and {benchmark.PNG_FILE}: {folder}')
