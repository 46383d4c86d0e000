"""`--mode=replay`, as a function of the options of a run."""

from __future__ import annotations

from estimator_lib import errors
from model_fns import build_task
from model_fns.cli import chosen_models, flag_configs
from model_fns.cli.run_options import RunOptions
from vision_extras.replay import counterfactual, past_run, replay


def run(options: RunOptions) -> None:
    """Repeat steps of a run, or continue it without some examples, and print what was seen.

    Raises:
        errors.UserError: an option is missing or not usable, or the run cannot be repeated.
    """
    _refuse_unusable(options)
    config = flag_configs.load_config(options)
    task = build_task(config, options.mode)
    folder = chosen_models.results_dir(options)
    past = past_run.read(task, config, options.model_dir, options.find_spike, folder)
    if options.find_spike:
        lines = replay.replay_spikes(past)
    elif options.without:
        lines = counterfactual.continue_without(past, options.step, options.without, options.until)
    else:
        lines = replay.replay(past, options.step)
    print('\n'.join(lines))


def _refuse_unusable(options: RunOptions) -> None:
    options.require('model_dir')
    if options.find_spike:
        for name in ('step', 'without'):
            if not options.has_default(name):
                raise errors.UserError(f'--find_spike chooses the steps; leave out --{name}.')
    else:
        options.require('step')
    if options.until is not None and not options.without:
        raise errors.UserError(
            f'--until={options.until} has no effect without --without; expected that flag too.'
        )
