"""The front door: trains, evaluates, exports and runs the model of a pipeline config.

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
from typing import TYPE_CHECKING, Dict, List, Optional, Sequence

# What is heavy, or missing in a Python that does not fit, is imported where it is needed.
if TYPE_CHECKING:
    from absl import flags

# Read when TensorFlow is imported, whose build reports missing GPU libraries as errors.
_TENSORFLOW_LOG = 'TF_CPP_MIN_LOG_LEVEL'
FORMATS = ('saved_model', 'frozen_graph', 'tflite', 'onnx')
QUANTIZES = ('none', 'dynamic', 'float16', 'int8')
WHICH = ('best', 'latest')
INPUT_TYPES = ('image_tensor', 'encoded_image_string_tensor', 'tf_example')

# The flags of each group of modes; `None`: of all. A flag that a mode does not read is refused.
_FLAGS_OF_MODES = (
    (
        None,
        'help helpfull helpshort mode model_dir pipeline_config_path config_override set '
        'num_train_steps logtostderr alsologtostderr verbosity',
    ),
    (('train_and_evaluate', 'evaluate', 'check'), 'sample_1_of_n_eval_examples'),
    (
        ('train_and_evaluate', 'evaluate'),
        'checkpoint_dir run_once eval_training_data sample_1_of_n_eval_on_train_examples',
    ),
    (('train_and_evaluate',), 'max_eval_retries eval_timeout'),
    (('evaluate', 'export', 'predict'), 'checkpoint_path which'),
    (('evaluate', 'predict'), 'model_file'),
    (('export', 'predict'), 'signature_name'),
    (
        ('export',),
        'export_dir format input_type warmup_requests quantize representative_examples '
        'max_detections fast_nms',
    ),
    (
        ('predict',),
        'saved_model_dir images output_dir output_format on_error exif runner runner_options raw '
        'score_threshold tile overlap whole_image top_k',
    ),
    (('check',), 'check_all'),
)
# What to write in place of a flag that a mode does not read.
_INSTEAD = {
    'checkpoint_path': 'training starts from it with --set train_config.fine_tune_checkpoint={}',
}


def modes_of_flags() -> Dict[str, Optional[Sequence[str]]]:
    """Returns the modes that read each flag, by its name; None: all do."""
    return {name: modes for modes, names in _FLAGS_OF_MODES for name in names.split()}


def define_flags() -> flags.FlagValues:
    """Defines the flags of the front door, apart from any other library's."""
    from absl import flags

    from estimator_lib.environment import MODES

    values = flags.FlagValues()

    def string(name: str, text: str, default: Optional[str] = None) -> None:
        flags.DEFINE_string(name, default, text, flag_values=values)

    def boolean(name: str, text: str) -> None:
        flags.DEFINE_boolean(name, False, text, flag_values=values)

    def integer(name: str, default: Optional[int], text: str, least: int = -1) -> None:
        flags.DEFINE_integer(name, default, text, lower_bound=least, flag_values=values)

    flags.DEFINE_boolean('help', False, 'Shows this.', short_name='h', flag_values=values)
    flags.DEFINE_enum('mode', MODES[0], MODES, 'What to do.', flag_values=values)
    string('model_dir', 'Checkpoints, events, the as-run pipeline.config, exports.')
    string(
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
    integer('num_train_steps', None, 'Overrides train_config.num_steps.', 1)
    string('checkpoint_path', 'The checkpoint; left out: one of model_dir, see which.')
    flags.DEFINE_enum(
        'which',
        None,
        WHICH,
        'The checkpoint of model_dir: the latest, or the best that export_config.best has kept; '
        'left out: the latest, and the log says where the best is another one.',
        flag_values=values,
    )
    string(
        'model_file',
        'A .tflite or .onnx file that an export has written, in place of a '
        'checkpoint or a SavedModel.',
    )
    string(
        'checkpoint_dir',
        'Evaluate the checkpoints of this folder as they come, without training (--mode=evaluate: '
        'the latest one).',
    )
    boolean('run_once', 'With checkpoint_dir: evaluate the latest checkpoint, once.')
    integer(
        'max_eval_retries',
        0,
        'With checkpoint_dir: how often the evaluation of a checkpoint that fails is tried again; '
        '-1: always.',
    )
    integer(
        'eval_timeout',
        600,
        'With checkpoint_dir: seconds without a new checkpoint after which this ends.',
        1,
    )
    boolean(
        'eval_training_data',
        'Evaluate on the training examples (as well, or alone with checkpoint_dir).',
    )
    integer('sample_1_of_n_eval_examples', 1, 'Evaluate on every n-th example.', 1)
    integer(
        'sample_1_of_n_eval_on_train_examples',
        5,
        'With eval_training_data: evaluate on every n-th of them.',
        1,
    )
    string('export_dir', 'Where DIR/<timestamp>/ is written.')
    flags.DEFINE_enum(
        'format',
        FORMATS[0],
        FORMATS,
        'What is written; other files than SavedModels are run beside the network before '
        'they stay.',
        flag_values=values,
    )
    flags.DEFINE_enum(
        'input_type',
        None,
        INPUT_TYPES,
        'What the server sends; left out: export_config.serving_input.',
        flag_values=values,
    )
    string('signature_name', 'One more name of the signature; or, to predict, which is asked.')
    integer(
        'warmup_requests',
        0,
        'How many requests TensorFlow Serving makes before it takes others (0 to 1000; '
        'needs tensorflow-serving-api).',
        0,
    )
    _define_device_flags(values)
    _define_prediction_flags(values)
    boolean('check_all', 'Every record, not a sample.')
    _define_logging_flags(values)
    for name, modes in modes_of_flags().items():
        if modes is not None:
            values[name].help = f'[{", ".join(modes)}] {values[name].help}'
    return values


def _define_device_flags(values: flags.FlagValues) -> None:
    """The flags of exports for small devices."""
    from absl import flags

    flags.DEFINE_enum(
        'quantize',
        None,
        QUANTIZES,
        'To tflite: the arithmetic; left out: none, or int8 where the model was trained for '
        'it (graph_rewriter).',
        flag_values=values,
    )
    flags.DEFINE_integer(
        'representative_examples',
        100,
        'To tflite as int8: how many images (of the training, else of the evaluation) the '
        'ranges of activations are measured on.',
        flag_values=values,
    )
    flags.DEFINE_integer(
        'max_detections',
        None,
        "To tflite or onnx: rows of a detector's outputs; left out: max_total_detections.",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_boolean(
        'fast_nms',
        False,
        'To tflite or onnx: suppression of all classes of a detector as one.',
        flag_values=values,
    )


def _define_prediction_flags(values: flags.FlagValues) -> None:
    """The flags of `--mode=predict`."""
    from absl import flags

    def string(name: str, text: str) -> None:
        flags.DEFINE_string(name, None, text, flag_values=values)

    def choice(name: str, known: Sequence[str], text: str) -> None:
        flags.DEFINE_enum(name, known[0], known, text, flag_values=values)

    string(
        'saved_model_dir',
        'An exported model; left out: the checkpoint of checkpoint_path or model_dir.',
    )
    string(
        'images',
        'An image file, a glob, a folder, a text file with a path in each line, or TFRecords.',
    )
    string('output_dir', 'Where predictions and pictures go.')
    choice(
        'output_format',
        ('json', 'coco', 'csv', 'submission'),
        'Of the predictions; submission: text files as DOTA takes them, of rotated boxes.',
    )
    choice('on_error', ('skip', 'fail'), 'What a bad image does: it is listed at the end, or ends.')
    choice('exif', ('apply', 'ignore'), 'Whether images are rotated as cameras say.')
    string(
        'runner',
        'Run as an Apache Beam pipeline, on this runner: DirectRunner, FlinkRunner, '
        'DataflowRunner, SparkRunner ..',
    )
    string('runner_options', "Flags of the runner, in quotes: '--direct_num_workers=2'.")
    flags.DEFINE_boolean('raw', False, "The model's outputs too, as they are.", flag_values=values)
    flags.DEFINE_float(
        'score_threshold',
        None,
        'The least score of what is written and drawn; left out: '
        'eval_config.min_score_threshold, else the one with the best F1 in the evaluation of the '
        'model, else 0.5 (for coco: 0).',
        lower_bound=0.0,
        flag_values=values,
    )
    flags.DEFINE_integer(
        'tile',
        None,
        'Cut larger images into squares of this side, and put what is found together.',
        lower_bound=32,
        flag_values=values,
    )
    flags.DEFINE_integer(
        'overlap',
        200,
        'Pixels that two tiles share; objects should not be longer.',
        lower_bound=0,
        flag_values=values,
    )
    flags.DEFINE_boolean(
        'whole_image',
        False,
        'With --tile: look at the whole image too, for objects that fit in no tile.',
        flag_values=values,
    )
    flags.DEFINE_integer(
        'top_k',
        None,
        'So many detections of an image, or classes, are written and drawn at most.',
        lower_bound=1,
        flag_values=values,
    )


def _define_logging_flags(values: flags.FlagValues) -> None:
    """Absl's flags of help and of the log, which job scripts have."""
    from absl import flags

    for name in ('helpfull', 'helpshort'):
        flags.DEFINE_boolean(name, False, 'The same as --help.', flag_values=values)
    for name in ('logtostderr', 'alsologtostderr'):
        text = 'The log goes to standard error; it always does.'
        flags.DEFINE_boolean(name, True, text, flag_values=values)
    flags.DEFINE_integer(
        'verbosity',
        0,
        "What is logged: -2 errors, -1 warnings too, 0 progress too, 1 TensorFlow's lines too.",
        lower_bound=-3,
        short_name='v',
        flag_values=values,
    )


def _log_level(values: flags.FlagValues) -> int:
    """The level of `logging` that `--verbosity` asks for."""
    levels = {-3: logging.CRITICAL, -2: logging.ERROR, -1: logging.WARNING, 0: logging.INFO}
    return levels.get(values.verbosity, logging.DEBUG)


def parse_flags(arguments: Sequence[str]) -> flags.FlagValues:
    """Parses the flags that were given.

    Raises:
        errors.UserError: an unknown flag, a value of the wrong kind, something that is no flag, or
            a flag that the mode does not read.
    """
    from absl import flags

    from estimator_lib import errors

    values = define_flags()
    try:
        rest = values(list(arguments))[1:]
    except flags.UnrecognizedFlagError as error:
        os.environ.setdefault(_TENSORFLOW_LOG, '3')
        from model_fns.cli import legacy_flags

        answer = legacy_flags.answer(arguments[1:])
        raise errors.UserError(answer or _unusable(error)) from None
    except flags.Error as error:
        raise errors.UserError(_unusable(error)) from None
    if rest:
        raise errors.UserError(f'{rest[0]!r} is not a flag; flags are written --name=value.')
    for name in ('logtostderr', 'alsologtostderr'):
        if not values[name].value:
            raise errors.UserError(
                f'--no{name}: the log goes to standard error; to have it in a file: 2> FILE.'
            )
    _refuse_flags_of_other_modes(values)
    return values


def _refuse_flags_of_other_modes(values: flags.FlagValues) -> None:
    from estimator_lib import errors

    for name, modes in modes_of_flags().items():
        if modes is None or values.mode in modes or not _is_set(values[name]):
            continue
        instead = _INSTEAD.get(name, '').format(values[name].value)
        raise errors.UserError(
            f'--{name} is not read by --mode={values.mode}; expected --mode={" or ".join(modes)}'
            + (f'; {instead}' if instead else '.')
        )


def _is_set(flag: flags.Flag) -> bool:
    """Returns whether a flag was given, but not to turn it off (`--run_once=false`)."""
    is_off = flag.value == '' or (not flag.value and flag.value == flag.default)
    return bool(flag.present) and not is_off


def _unusable(error: flags.Error) -> str:
    return f'{" ".join(str(error).split())} (--help lists the flags)'


def run(arguments: Sequence[str]) -> None:
    """Does what the command line says."""
    from estimator_lib import environment, logs

    values = parse_flags(arguments)
    if values.help or values.helpfull or values.helpshort:
        print(__doc__ + '\nFlags:\n' + values.get_help())
        return
    level = _log_level(values)
    logs.configure(level)
    os.environ.setdefault(_TENSORFLOW_LOG, '3' if level > logging.DEBUG else '0')
    # Before TensorFlow is imported, which takes seconds.
    command = f'{environment.front_door_command()} {shlex.join(arguments[1:])}'
    logging.getLogger('estimator_lib').info('%s (%s)', command, environment.versions())
    _import_front_door().run(values)


def _import_front_door() -> types.ModuleType:
    """With TensorFlow: looking for garbage takes a fifth of the time, and finds none."""
    from estimator_lib import environment

    collects = gc.isenabled()
    gc.disable()
    try:
        with environment.without_setuptools():
            from model_fns.cli import front_door
    finally:
        if collects:
            gc.enable()
    return front_door


def main(arguments: Optional[List[str]] = None) -> None:
    """Runs, and exits with 0, 2 (what was given is wrong) or 143 (told to end: `Preempted`)."""
    arguments = sys.argv if arguments is None else arguments
    try:
        from estimator_lib.errors import UserError
    except ImportError as error:
        sys.exit(_complain(str(error)))
    try:
        run(arguments)
    except UserError as error:
        sys.exit(_complain(str(error)))


def _complain(message: str) -> int:
    print(f'error: {message}', file=sys.stderr)
    return 2


if __name__ == '__main__':
    main()
