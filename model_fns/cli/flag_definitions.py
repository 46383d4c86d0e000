"""Flags of the front door: their definition, and the modes that read them.

It imports no TensorFlow, so that the front door shows its help and refuses bad flags at once.
"""

from __future__ import annotations

from typing import Dict, Optional, Sequence

from absl import flags

from estimator_lib import environment

FORMATS = ('saved_model', 'frozen_graph', 'tflite', 'onnx')
QUANTIZES = ('none', 'dynamic', 'float16', 'int8')
INPUTS = ('image',)
BATCHES = ('dynamic',)
SERVING_WEIGHTS = ('variables', 'constants')
SUPPRESSIONS = ('standard', 'none', 'efficient_nms')
PICTURES = ('none', 'jpeg', 'png')
WHICH = ('best', 'latest')
REPOSITORIES = ('triton',)
TASKS = (
    'classification',
    'detection',
    'rotated',
    'instances',
    'keypoints',
    'segmentation',
)
INPUT_TYPES = ('image_tensor', 'encoded_image_string_tensor', 'tf_example')

# The help lists the flags under the name of the program, not of this module.
flags.disclaim_key_flags()

# The flags of each group of modes; `None`: all modes. Other flags are refused.
_FLAGS_OF_MODES = (
    (
        None,
        'help helpfull helpshort mode model_dir pipeline_config_path config_override set '
        'num_train_steps logtostderr alsologtostderr verbosity',
    ),
    (
        ('train_and_evaluate', 'evaluate', 'check', 'benchmark'),
        'sample_1_of_n_eval_examples',
    ),
    (
        ('train_and_evaluate', 'evaluate'),
        'checkpoint_dir run_once eval_training_data sample_1_of_n_eval_on_train_examples',
    ),
    (('train_and_evaluate',), 'max_eval_retries eval_timeout'),
    (('train_and_evaluate', 'create_config'), 'data minutes epochs task size weights'),
    (('train_and_evaluate',), 'seeds'),
    (('evaluate', 'export', 'predict', 'benchmark'), 'checkpoint_path which'),
    (('evaluate', 'predict'), 'model_file label_map'),
    (('evaluate',), 'analyze coco_files'),
    (('export', 'predict'), 'signature_name'),
    (
        ('export',),
        'export_dir format input_type serving_weights warmup_requests repository quantize '
        'representative_examples max_detections fast_nms batch input suppression '
        'confidence_masks',
    ),
    (('evaluate', 'predict', 'benchmark', 'compare', 'replay'), 'output_dir'),
    (
        ('predict',),
        'saved_model_dir images additional_channels output_format on_error exif runner '
        'runner_options raw score_threshold tile overlap whole_image top_k only_class pictures '
        'crops',
    ),
    (('check',), 'check_all show_augmented propose_anchors write_config'),
    (('benchmark',), 'exports batch_size threads image_size'),
    (('compare',), 'reference'),
    (('replay',), 'step find_spike without until'),
)


def flag_modes() -> Dict[str, Optional[Sequence[str]]]:
    """Return the modes that read each flag, by its name; None: all modes."""
    return {name: modes for modes, names in _FLAGS_OF_MODES for name in names.split()}


def define_flags() -> flags.FlagValues:
    """Define the flags of the front door, separate from those of other libraries."""
    values = flags.FlagValues()
    _define_config_flags(values)
    _define_data_flags(values)
    _define_model_flags(values)
    _define_evaluation_flags(values)
    _define_export_flags(values)
    _define_device_flags(values)
    _define_prediction_flags(values)
    _define_benchmark_flags(values)
    _define_check_flags(values)
    _string(
        values,
        'reference',
        'Command of a Python with your own Object Detection API: trains and evaluates '
        'pipeline_config_path there and here from one checkpoint (num_train_steps; left out: 10).',
    )
    _define_replay_flags(values)
    _define_logging_flags(values)
    for name, modes in flag_modes().items():
        if modes is not None:
            values[name].help = f'[{", ".join(modes)}] {values[name].help}'
    return values


def _string(values: flags.FlagValues, name: str, text: str) -> None:
    flags.DEFINE_string(name, None, text, flag_values=values)


def _boolean(values: flags.FlagValues, name: str, text: str, default: bool = False) -> None:
    flags.DEFINE_boolean(name, default, text, flag_values=values)


def _integer(
    values: flags.FlagValues, name: str, text: str, default: Optional[int], least: Optional[int]
) -> None:
    flags.DEFINE_integer(name, default, text, lower_bound=least, flag_values=values)


def _choice(
    values: flags.FlagValues, name: str, text: str, known: Sequence[str], default: Optional[str]
) -> None:
    flags.DEFINE_enum(name, default, known, text, flag_values=values)


def _define_config_flags(values: flags.FlagValues) -> None:
    """Define the flags of all modes: the mode, the folder and the config."""
    flags.DEFINE_boolean('help', False, 'Shows this.', short_name='h', flag_values=values)
    _choice(values, 'mode', 'What to do.', environment.MODES, environment.MODES[0])
    flags.DEFINE_multi_string(
        'model_dir',
        None,
        'Checkpoints, events, the as-run pipeline.config, exports; --mode=compare: given for each '
        'run.',
        flag_values=values,
    )
    _string(
        values,
        'pipeline_config_path',
        'The pipeline config: a file, or builtin:NAME for one of the package (builtin: alone lists '
        'them). Left out: the one saved in model_dir, or beside the checkpoint; to train, else the '
        'embedded demo.',
    )
    flags.DEFINE_multi_string(
        'config_override',
        [],
        'Protobuf text merged over the config; may repeat.',
        flag_values=values,
    )
    flags.DEFINE_multi_string(
        'set',
        [],
        'One field by its path: --set train_config.batch_size=8, or with an index for repeated '
        'fields: --set eval_input_reader.0.label_map_path=FILE; may repeat.',
        flag_values=values,
    )
    _integer(values, 'num_train_steps', 'Overrides train_config.num_steps.', None, 1)


def _define_data_flags(values: flags.FlagValues) -> None:
    """Define the flags of a run that begins with a data set."""
    _string(
        values,
        'data',
        'A data set: data.yaml, a folder, a table, COCO JSON or a zip. Decides a config for '
        'it, with the reasons in model_dir/pipeline.config, and runs it; given again, continues.',
    )
    for name, text in (
        ('minutes', 'With data: of training, by the time of a step on this machine; left out: 10.'),
        ('epochs', 'With data, in place of minutes: passes over the training images.'),
    ):
        flags.DEFINE_float(name, None, text, lower_bound=0.01, flag_values=values)
    text = 'Train that many runs, in model_dir/seed-1 and so on; --mode=compare groups them.'
    _integer(values, 'seeds', text, None, 1)
    text = 'With data: what to train, where its annotations are for several tasks.'
    _choice(values, 'task', text, TASKS, None)
    text = "With data: longer side of the network's input in pixels; left out: by the objects."
    _integer(values, 'size', text, None, 32)
    text = 'With data: initial weights, a checkpoint or the name of a hub; left out: from scratch.'
    _string(values, 'weights', text)


def _define_model_flags(values: flags.FlagValues) -> None:
    """Define the flags that name a model: a checkpoint, an export or a file."""
    _string(values, 'checkpoint_path', 'The checkpoint; left out: one of model_dir, see which.')
    _choice(
        values,
        'which',
        'The checkpoint of model_dir: the latest, or the best that export_config.best has kept; '
        'left out: the latest, and the log says where the best is another one.',
        WHICH,
        None,
    )
    _string(
        values,
        'model_file',
        'A .tflite or .onnx file that an export has written, a frozen graph (.pb), or a .tflite '
        'file of another program, in place of a checkpoint or a SavedModel.',
    )
    _string(
        values,
        'label_map',
        'With a model_file of another program: a label map, or a text file with a name in each '
        'line; left out: the names in the file, if any.',
    )
    text = 'An exported model; left out: the checkpoint of checkpoint_path or model_dir.'
    _string(values, 'saved_model_dir', text)
    text = 'One more name of the signature; or, to predict, the signature to call.'
    _string(values, 'signature_name', text)


def _define_evaluation_flags(values: flags.FlagValues) -> None:
    """Define the flags of evaluations."""
    _string(
        values,
        'checkpoint_dir',
        'Evaluate the checkpoints of this folder as they come, without training (--mode=evaluate: '
        'the latest one).',
    )
    _boolean(values, 'run_once', 'With checkpoint_dir: evaluate the latest checkpoint, once.')
    _integer(
        values,
        'max_eval_retries',
        'With checkpoint_dir: number of retries when the evaluation of a checkpoint fails; '
        '-1: no limit.',
        0,
        -1,
    )
    text = 'With checkpoint_dir: seconds without a new checkpoint after which this ends.'
    _integer(values, 'eval_timeout', text, 600, 1)
    text = 'Evaluate on the training examples (as well, or alone with checkpoint_dir).'
    _boolean(values, 'eval_training_data', text)
    text = 'Evaluate on every n-th example.'
    _integer(values, 'sample_1_of_n_eval_examples', text, 1, 1)
    text = 'With eval_training_data: evaluate on every n-th of them.'
    _integer(values, 'sample_1_of_n_eval_on_train_examples', text, 5, 1)
    text = 'Write model_dir/analysis/<step>/report.html: errors by kind, curves, the worst images.'
    _boolean(values, 'analyze', text)
    text = 'Write coco_files/groundtruth.json and results.json of a detector, for pycocotools.'
    _boolean(values, 'coco_files', text)


def _define_export_flags(values: flags.FlagValues) -> None:
    """Define the flags of exports."""
    _string(values, 'export_dir', 'Where DIR/<timestamp>/ is written.')
    _choice(
        values,
        'format',
        'Format of the export; all but SavedModels are compared with the network before they '
        'are kept.',
        FORMATS,
        FORMATS[0],
    )
    _choice(
        values,
        'input_type',
        'What the server sends; left out: export_config.serving_input.',
        INPUT_TYPES,
        None,
    )
    _choice(
        values,
        'serving_weights',
        'To saved_model: variables, which take least memory, or constants of the graph.',
        SERVING_WEIGHTS,
        SERVING_WEIGHTS[0],
    )
    _integer(
        values,
        'warmup_requests',
        'Number of requests that TensorFlow Serving makes before it takes others (0 to 1000; needs '
        'tensorflow-serving-api).',
        0,
        0,
    )
    _choice(
        values,
        'repository',
        'To onnx: makes export_dir a model in the repository of this server.',
        REPOSITORIES,
        None,
    )


def _define_device_flags(values: flags.FlagValues) -> None:
    """Define the flags of exports for small devices."""
    _choice(
        values,
        'quantize',
        'To tflite: the arithmetic; left out: none, or int8 where the model was trained for it '
        '(graph_rewriter).',
        QUANTIZES,
        None,
    )
    _integer(
        values,
        'representative_examples',
        'To tflite as int8: number of images (of the training, else of the evaluation) for '
        'measuring the ranges of activations.',
        100,
        None,
    )
    _integer(
        values,
        'max_detections',
        "To tflite or onnx: rows of a detector's outputs; left out: max_total_detections.",
        None,
        1,
    )
    _boolean(
        values, 'fast_nms', 'To tflite or onnx: suppression of all classes of a detector as one.'
    )
    _choice(
        values,
        'batch',
        'To onnx: dynamic: any number of images of one size at a time; left out: one image.',
        BATCHES,
        None,
    )
    _choice(
        values,
        'input',
        'To onnx: image: uint8 images of any size, which the file resizes; left out: float32 '
        'pixels of the size of the network.',
        INPUTS,
        None,
    )
    _choice(
        values,
        'suppression',
        'To onnx: what ends the file of a detector: its suppression (standard), decoded boxes and '
        "their scores (none), or the node of TensorRT's plugin (efficient_nms).",
        SUPPRESSIONS,
        'standard',
    )
    text = 'To tflite or onnx: the only output of a segmentation network are the probabilities, a '
    text += "mask for each class, as MediaPipe's ImageSegmenter takes them."
    _boolean(values, 'confidence_masks', text)


def _define_prediction_flags(values: flags.FlagValues) -> None:
    """Define the flags of `--mode=predict`."""
    _string(
        values,
        'images',
        'An image file, a glob, a folder, a text file with a path in each line, or TFRecords; or '
        'videos.',
    )
    flags.DEFINE_multi_string(
        'additional_channels',
        [],
        'A folder of gray images with the stems of --images: a channel beside the colors; given '
        'for each channel, in their order.',
        flag_values=values,
    )
    _string(
        values,
        'output_dir',
        'Where predictions and pictures, metrics, benchmark.csv, replays, compare.html or '
        'migration.html go; left out: model_dir (compare: here).',
    )
    _choice(
        values,
        'output_format',
        'Of the predictions; yolo, voc: a file of annotations for each image; submission: text '
        'files as DOTA takes them, of rotated boxes.',
        ('json', 'coco', 'csv', 'yolo', 'voc', 'submission'),
        'json',
    )
    text = 'For a bad image: list it at the end, or stop.'
    _choice(values, 'on_error', text, ('skip', 'fail'), 'skip')
    text = 'Whether images are rotated as their EXIF orientation says.'
    _choice(values, 'exif', text, ('apply', 'ignore'), 'apply')
    _string(
        values,
        'runner',
        'Run as an Apache Beam pipeline, on this runner: DirectRunner, FlinkRunner, '
        'DataflowRunner, SparkRunner ..',
    )
    _string(values, 'runner_options', "Flags of the runner, in quotes: '--direct_num_workers=2'.")
    _boolean(values, 'raw', "Also write the model's raw outputs.")
    flags.DEFINE_float(
        'score_threshold',
        None,
        'Least score of results that are written and drawn; left out: '
        'eval_config.min_score_threshold, else the one with the best F1 in the evaluation of the '
        'model, else 0.5 (for coco: 0).',
        lower_bound=0.0,
        flag_values=values,
    )
    text = 'Cut larger images into squares of this side, and merge the results.'
    _integer(values, 'tile', text, None, 32)
    text = 'Pixels that two tiles share; objects should not be longer. Left out: a quarter of the '
    text += 'tile, at most 200.'
    _integer(values, 'overlap', text, None, 0)
    text = 'With --tile: predict on the whole image too, for objects that fit in no tile.'
    _boolean(values, 'whole_image', text)
    text = 'Largest number of detections of an image, or of classes, to write and draw.'
    _integer(values, 'top_k', text, None, 1)
    flags.DEFINE_multi_string(
        'only_class',
        [],
        'Name of a class that is written and drawn; others are left out; may repeat.',
        flag_values=values,
    )
    text = 'Pictures with the predictions; none: predictions.html shows the images themselves.'
    _choice(values, 'pictures', text, PICTURES, 'png')
    _boolean(values, 'crops', 'Write each object as a picture: crops/<class>/<image>_<number>.')


def _define_benchmark_flags(values: flags.FlagValues) -> None:
    """Define the flags of `--mode=benchmark`."""
    text = "Formats, or exports by their names in the table: 'onnx,tflite int8'; left out: all."
    _string(values, 'exports', text)
    _integer(values, 'batch_size', 'Number of images in a batch.', 8, 1)
    _integer(values, 'threads', 'Of each runtime; left out: as many as it likes.', None, 1)
    text = 'Size of the images that are timed, HEIGHTxWIDTH or a side for both; left out: those of '
    text += 'the evaluation. The config fixes the size of the network.'
    _string(values, 'image_size', text)


def _define_check_flags(values: flags.FlagValues) -> None:
    """Define the flags of `--mode=check`."""
    _boolean(values, 'check_all', 'Every record, not a sample.')
    _integer(values, 'show_augmented', 'Draws so many training examples, augmented.', None, 1)
    _boolean(values, 'propose_anchors', 'Anchors that fit the boxes, as a config.')
    text = "A file for a detector's config with input and anchors that fit all boxes."
    _string(values, 'write_config', text)


def _define_replay_flags(values: flags.FlagValues) -> None:
    """Define the flags of `--mode=replay`."""
    _integer(values, 'step', 'The step to repeat, from 1.', None, 1)
    _boolean(values, 'find_spike', 'Repeat the steps with an unusual loss or gradient instead.')
    flags.DEFINE_multi_string(
        'without',
        [],
        'Train from --step on without this example, in a folder of its own: a source id, or '
        'FILE:INDEX of its record; may repeat.',
        flag_values=values,
    )
    text = 'With --without: the last step; left out: that of the run.'
    _integer(values, 'until', text, None, 1)


def _define_logging_flags(values: flags.FlagValues) -> None:
    """Define absl's flags of help and logging, which existing job scripts pass."""
    for name in ('helpfull', 'helpshort'):
        _boolean(values, name, 'The same as --help.')
    for name in ('logtostderr', 'alsologtostderr'):
        _boolean(values, name, 'The log goes to standard error; it always does.', default=True)
    flags.DEFINE_integer(
        'verbosity',
        0,
        "What is logged: -2 errors, -1 warnings too, 0 progress too, 1 TensorFlow's lines too.",
        lower_bound=-3,
        short_name='v',
        flag_values=values,
    )
