"""Options of a run of the front door, as values of their types."""

from __future__ import annotations

import dataclasses
from typing import Optional, Tuple

from estimator_lib import errors


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """Options of a run: an attribute for each flag that a mode reads, named like the flag.

    `flag_definitions` makes the flags of them, with the texts of `flags.ini`; `flag_parsing`
    refuses a value out of its range or a flag that the mode does not read.

    Attributes that are `None` by default are optional.
    """

    mode: str = 'train_and_evaluate'
    model_dir: Optional[str] = None
    model_dirs: Tuple[str, ...] = ()  # all values of `--model_dir`, the last of which is above

    # The config.
    pipeline_config_path: Optional[str] = None
    config_override: Tuple[str, ...] = ()
    set: Tuple[str, ...] = ()
    num_train_steps: Optional[int] = None

    # A config of a data set.
    data: Optional[str] = None
    minutes: Optional[float] = None
    epochs: Optional[float] = None
    seeds: Optional[int] = None
    task: Optional[str] = None
    size: Optional[int] = None
    weights: Optional[str] = None

    # The model; by default the latest checkpoint of `model_dir`.
    checkpoint_path: Optional[str] = None
    which: Optional[str] = None
    model_file: Optional[str] = None
    label_map: Optional[str] = None
    saved_model_dir: Optional[str] = None
    signature_name: Optional[str] = None

    # Evaluation.
    checkpoint_dir: Optional[str] = None
    run_once: bool = False
    max_eval_retries: int = 0
    eval_timeout: int = 600
    eval_training_data: bool = False
    sample_1_of_n_eval_examples: int = 1
    sample_1_of_n_eval_on_train_examples: int = 5
    analyze: bool = False
    coco_files: bool = False

    # Export.
    export_dir: Optional[str] = None
    format: str = 'saved_model'
    input_type: Optional[str] = None
    serving_weights: str = 'variables'
    warmup_requests: int = 0
    repository: Optional[str] = None
    quantize: Optional[str] = None
    representative_examples: int = 100
    keep_float: Tuple[str, ...] = ()
    max_loss: Optional[float] = None
    max_detections: Optional[int] = None
    fast_nms: bool = False
    batch: Optional[str] = None
    input: Optional[str] = None
    suppression: str = 'standard'
    confidence_masks: bool = False

    # Prediction.
    images: Optional[str] = None
    additional_channels: Tuple[str, ...] = ()
    output_dir: Optional[str] = None
    output_format: str = 'json'
    on_error: str = 'skip'
    exif: str = 'apply'
    runner: Optional[str] = None
    runner_options: Optional[str] = None
    raw: bool = False
    score_threshold: Optional[float] = None
    tile: Optional[int] = None
    overlap: Optional[int] = None
    whole_image: bool = False
    top_k: Optional[int] = None
    only_class: Tuple[str, ...] = ()
    pictures: str = 'png'
    crops: bool = False

    # Benchmark.
    exports: Optional[str] = None
    batch_size: int = 8
    threads: Optional[int] = None
    image_size: Optional[str] = None

    # Check.
    check_all: bool = False
    show_augmented: Optional[int] = None
    propose_anchors: bool = False
    write_config: Optional[str] = None

    # Comparison.
    reference: Optional[str] = None

    # Replay.
    step: Optional[int] = None
    find_spike: bool = False
    without: Tuple[str, ...] = ()
    until: Optional[int] = None

    def has_default(self, name: str) -> bool:
        """Return whether an option has its default, or is empty, which means the same."""
        value = getattr(self, name)
        # Job scripts pass flags whose variables are empty.
        return value == '' or value == getattr(type(self), name)

    def require(self, name: str) -> None:
        """Check that an option, which the mode needs, is set.

        Raises:
            errors.UserError: it is not.
        """
        if not getattr(self, name):
            raise errors.UserError(f'--mode={self.mode} needs --{name}.')
