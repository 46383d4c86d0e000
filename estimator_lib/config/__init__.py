"""Functions that read, override, validate and save pipeline configs.

    config = load_pipeline_config('pipeline.config', settings=['train_config.batch_size=8'])
    for warning in validate(config):  # checks the engine's fields; see model_fns.validate
        ...
    save_pipeline_config(config, model_dir)

Nothing in this package builds a graph.
"""

from estimator_lib.config.durations import resolve as resolve_durations
from estimator_lib.config.loading import (
    PIPELINE_CONFIG_NAME,
    PipelineConfig,
    apply_overrides,
    apply_settings,
    load_pipeline_config,
    load_saved_config,
    merge_pipeline_configs,
    parse_pipeline_config,
    save_pipeline_config,
    saved_pipeline_config,
)
from estimator_lib.config.rules import ConfigRules
from estimator_lib.config.validation import validate

__all__ = [
    'PIPELINE_CONFIG_NAME',
    'ConfigRules',
    'PipelineConfig',
    'apply_overrides',
    'apply_settings',
    'load_pipeline_config',
    'load_saved_config',
    'merge_pipeline_configs',
    'parse_pipeline_config',
    'resolve_durations',
    'save_pipeline_config',
    'saved_pipeline_config',
    'validate',
]
