"""Config fields in TensorBoard's HParams plugin, read by the plugin itself."""

import builtins

import pytest
from google.protobuf import text_format

from estimator_lib.hooks import summaries
from estimator_lib.run_records import hparams
from protos import pipeline_pb2

CONFIG = """
model { classification { num_classes: 3 } }
train_config {
  batch_size: 8
  random_seed: 1
  freeze_variables: 'a'
  freeze_variables: 'b'
  optimizer {
    sgd_optimizer { learning_rate { constant_learning_rate { learning_rate: 0.1 } } }
    use_moving_average: true
  }
  loop: TF_FUNCTION
  data_augmentation_options { random_horizontal_flip { } }
  data_augmentation_options { random_adjust_brightness { max_delta: 0.25 } }
}
eval_config { super_categories { key: 'pets' value: 'cat,dog' } }
"""
FIELDS = {
    'model.classification.num_classes': 3,
    'train_config.batch_size': 8,
    'train_config.freeze_variables': 'a, b',
    'train_config.optimizer.sgd_optimizer.learning_rate.constant_learning_rate.learning_rate': 0.1,
    'train_config.loop': 'TF_FUNCTION',
    'train_config.data_augmentation_options.0.random_horizontal_flip': True,
    'train_config.data_augmentation_options.1.random_adjust_brightness.max_delta': 0.25,
    'eval_config.super_categories.pets': 'cat,dog',
}


@pytest.fixture
def config():
    return text_format.Parse(CONFIG, pipeline_pb2.TrainEvalPipelineConfig())


def test_fields_that_differ_from_their_defaults(config):
    """The seed is 1 by default, and moving averages are kept by default."""
    assert hparams.changed_fields(config) == FIELDS


def read_runs(folder, *names):
    """What the plugin shows of runs in a folder: fields, metrics and status by name."""
    pytest.importorskip('tensorboard')
    from tensorboard import context
    from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
    from tensorboard.plugins import base_plugin
    from tensorboard.plugins.hparams import (
        api_pb2,
        backend_context,
        get_experiment,
        list_session_groups,
    )

    multiplexer = plugin_event_multiplexer.EventMultiplexer()
    for name in names:
        for path in {file.parent for file in (folder / name).rglob('events.out.tfevents.*')}:
            multiplexer.AddRun(str(path), str(path.relative_to(folder)))
    multiplexer.Reload()
    provider = data_provider.MultiplexerDataProvider(multiplexer, str(folder))
    plugin = backend_context.Context(
        base_plugin.TBContext(data_provider=provider, logdir=str(folder))
    )
    request = context.RequestContext()
    experiment = get_experiment.Handler(
        request, plugin, '', api_pb2.GetExperimentRequest(include_metrics=True)
    ).run()
    asked = api_pb2.ListSessionGroupsRequest(
        slice_size=10, include_metrics=True, allowed_statuses=api_pb2.Status.values()
    )
    for metric in experiment.metric_infos:
        asked.col_params.add().metric.CopyFrom(metric.name)
    groups = list_session_groups.Handler(request, plugin, '', asked).run().session_groups
    return {
        group.name: (
            {
                name: getattr(value, value.WhichOneof('kind'))
                for name, value in group.hparams.items()
            },
            {f'{each.name.group}/{each.name.tag}': each.value for each in group.metric_values},
            [api_pb2.Status.Name(session.status) for session in group.sessions],
        )
        for group in groups
    }


def test_the_plugin_shows_fields_and_final_metrics_of_each_run(config, tmp_path):
    for name, seed, ended in (('first', 2, True), ('second', 3, None), ('third', 4, False)):
        folder = str(tmp_path / name)
        config.train_config.random_seed = seed
        hparams.write_start(folder, config)
        for step in (10, 20):
            summaries.write(f'{folder}/eval_0', step, {'a': step + seed / 8})
        if ended is not None:
            hparams.write_end(folder, ended)
    found = read_runs(tmp_path, 'first', 'second', 'third')
    assert found == {
        name: ({**FIELDS, 'train_config.random_seed': seed}, {'eval_0/a': 20 + seed / 8}, [status])
        for name, seed, status in (
            ('first', 2, 'STATUS_SUCCESS'),
            ('second', 3, 'STATUS_UNKNOWN'),
            ('third', 4, 'STATUS_FAILURE'),
        )
    }


def test_the_folder_of_one_run_has_its_fields(config, tmp_path):
    """The plugin takes no sub-folder for a part of the run `.`, as docs/training.md says.

    Older ones have the scalars of the folder itself.
    """
    hparams.write_start(str(tmp_path), config)
    summaries.write(str(tmp_path), 10, {'loss': 0.5})
    summaries.write(f'{tmp_path}/eval_0', 10, {'a': 0.25})
    hparams.write_end(str(tmp_path), True)
    (run,) = read_runs(tmp_path, '.').values()
    assert run[0] == FIELDS and run[2] == ['STATUS_SUCCESS']
    assert run[1] in ({}, {'/loss': 0.5})


def test_nothing_is_written_without_tensorboard(config, tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *arguments, **options):
        if name.startswith('tensorboard'):
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, '__import__', without)
    hparams.write_start(str(tmp_path), config)
    hparams.write_end(str(tmp_path), True)
    assert list(tmp_path.iterdir()) == []
