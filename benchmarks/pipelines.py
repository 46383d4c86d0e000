"""The pipeline configs that benchmarks run: published ones, on data that are here."""

from __future__ import annotations

import os
from typing import Any

from benchmarks import measuring

# Published configs, and what else is recorded of the systems that they come from.
PUBLISHED = os.path.join(os.path.dirname(measuring.ROOT), 'shared', 'configs')

_OF_A_CLUSTER = ('sync_replicas', 'replicas_to_aggregate', 'startup_delay_steps')


def read_by(config: Any, records: str, label_map: str) -> None:
    """Lets all readers of a config read the same records.

    Args:
        config: `TrainEvalPipelineConfig`; changed in place.
        records: a glob of TFRecords.
        label_map: of the records.
    """
    for reader in (config.train_input_reader, *config.eval_input_reader):
        del reader.tf_record_input_reader.input_path[:]
        reader.tf_record_input_reader.input_path.append(records)
        reader.label_map_path = label_map


def on_the_demo(config: Any) -> None:
    """Lets all readers of a detector's config read the embedded demo's scenes; see `read_by`.

    A model with fewer classes than the demo gets as many.
    """
    from model_fns import label_map
    from model_fns.datasets import demo

    dataset = demo.demo_dataset()
    read_by(config, dataset.pattern('scenes', 'train'), dataset.label_map)
    if config.model.WhichOneof('model') in ('ssd', 'faster_rcnn'):
        least = label_map.LabelMap.read(dataset.label_map).max_id
        model = getattr(config.model, config.model.WhichOneof('model'))
        model.num_classes = max(model.num_classes, least)


def on_one_machine(config: Any) -> None:
    """Takes out of a config the checkpoint that it starts from, and the cluster it was made for.

    Args:
        config: `TrainEvalPipelineConfig`; changed in place.
    """
    config.train_config.ClearField('fine_tune_checkpoint')
    for field in _OF_A_CLUSTER:
        config.train_config.ClearField(field)
