"""Fixtures of all tests: the folder of recorded cases, and TensorFlow without messages."""

import gc
import logging
import os
import pathlib
import signal
import subprocess
import sys
from unittest import mock

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')

import hypothesis
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
_STARTED = subprocess.Popen
# What a shell starts with `&` ignores Ctrl-C, and with `nohup` a hang-up. So would each process of
# a test.
for number, handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)
sys.path.insert(0, str(ROOT))

import estimator_lib  # noqa: E402, F401 - before TensorFlow, whose kernels it chooses

# The same examples in each run, and no deadlines: a test fails for what the code does, not for a
# draw or a busy machine. New examples are drawn with `--hypothesis-profile=draws`.
_PATIENT = {'deadline': None, 'suppress_health_check': [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile('draws', **_PATIENT)
hypothesis.settings.register_profile('repeats', derandomize=True, **_PATIENT)
hypothesis.settings.load_profile('repeats')


def shared_folder() -> pathlib.Path:
    """Return the folder of recorded cases, published configs and data, which may be missing."""
    return ROOT.parent / 'shared'


@pytest.fixture(scope='session')
def shared() -> pathlib.Path:
    """Return the shared folder beside the project; tests that need it are skipped without it."""
    folder = shared_folder()
    if not folder.is_dir():
        pytest.skip('the folder ../shared (recorded cases and data) is not here')
    return folder


@pytest.fixture(autouse=True)
def bfloat16_kernels(request):
    """Skip tests marked `bfloat16` where oneDNN is told to use kernels of older processors.

    TensorFlow asks the processor, which has bfloat16, and then oneDNN, which may not use it.
    """
    limit = os.environ.get('ONEDNN_MAX_CPU_ISA', 'DEFAULT').upper()
    is_limited = limit not in ('ALL', 'DEFAULT') and not limit.endswith(('BF16', 'AMX'))
    if is_limited and request.node.get_closest_marker('bfloat16'):
        pytest.skip(f'ONEDNN_MAX_CPU_ISA={limit} has no kernels of bfloat16')


def pytest_collection_modifyitems(items):
    """Order tests: whole runs first, so that one of two processes gets them, small tests last.

    While a run waits for its processes, the other process computes. At the end the two take small
    tests from each other, whose fixtures cost little, and end at the same time.
    """
    items.sort(key=lambda item: item.path.parent.name not in ('tests', 'system'))


@pytest.fixture(autouse=True)
def process_as_before():
    """Restore environment and loggers after a test, so that later tests see nothing of it."""
    environment = dict(os.environ)
    loggers = [logging.getLogger(name) for name in ('estimator_lib', 'model_fns', 'tensorflow')]
    states = [(one.level, one.propagate, list(one.handlers)) for one in loggers]
    for one in loggers:
        one.propagate = True  # pytest sees each message once: at the root
    yield
    if os.environ != environment:
        os.environ.clear()
        os.environ.update(environment)
    for one, (level, propagate, handlers) in zip(loggers, states):
        one.setLevel(level)
        one.propagate, one.handlers[:] = propagate, handlers


@pytest.hookimpl(hookwrapper=True)
def pytest_collection():
    """Collect garbage less often, see `tests.processes`."""
    from tests import processes

    gc.disable()  # what imports make is no garbage
    yield
    gc.freeze()
    gc.set_threshold(*processes.COLLECTED_SELDOM)
    gc.enable()


@pytest.fixture(scope='session', autouse=True)
def graphs_run_as_they_are_built():
    """Switch graph rewriting off: most graphs run once, and it takes a quarter of the suite's time.

    The Estimators of this process do not rewrite either, except for one run of each kind of model,
    and draw no curves. Processes that tests start do both as for users.
    """
    import tensorflow as tf

    from tests import sessions

    tf.config.optimizer.set_experimental_options({'disable_meta_optimizer': True})
    with sessions.without_rewrites(), sessions.without_curves():
        yield


@pytest.fixture(scope='session', autouse=True)
def operations_do_not_know_their_lines():
    """Record no stack traces of operations, and filter none of errors: a sixth of the time of one.

    TensorFlow prints the first with some errors. Processes that tests start keep both.
    """
    import tensorflow as tf
    from tensorflow.python.util import tf_stack

    tf.debugging.disable_traceback_filtering()
    lines = tf_stack.extract_stack()
    with mock.patch.object(tf_stack, 'extract_stack', lambda stacklevel=1: lines):
        yield


class _Entered:
    """What `with graph.as_default()` enters: nothing where the graph is the default one."""

    def __init__(self, graph, enter):
        self._graph, self._enter, self._entered = graph, enter, None

    def __enter__(self):
        from tensorflow.python.eager import context
        from tensorflow.python.framework import ops

        stack = ops._default_graph_stack.stack
        if stack and stack[-1] is self._graph and not context.executing_eagerly():
            return self._graph
        self._entered = self._enter(self._graph)
        return self._entered.__enter__()

    def __exit__(self, *error):
        return self._entered and self._entered.__exit__(*error)


@pytest.fixture(scope='session', autouse=True)
def operations_enter_their_graph_once():
    """Enter no graph that is the default one: TensorFlow enters it three times an operation.

    That takes a tenth of the time to make one.
    """
    import tensorflow as tf

    enter = tf.Graph.as_default
    with mock.patch.object(tf.Graph, 'as_default', lambda graph: _Entered(graph, enter)):
        yield


@pytest.fixture(scope='module', autouse=True)
def graphs_end_with_their_module():
    """Free the graphs of a module: garbage collection of all graphs takes minutes of a whole run.

    TensorFlow registers each custom gradient that a graph uses under a name of its own, for the
    life of the process, and the entry holds the graph.
    """
    from tensorflow.python.framework import ops

    entries = ops.gradient_registry._registry
    before = set(entries)
    yield
    for name in set(entries) - before:
        if name.startswith('CustomGradient-'):
            del entries[name]


@pytest.fixture(scope='session', autouse=True)
def processes_compute_on_one_thread():
    """Limit threads of started processes: they share the cores, and would wait for each other.

    This process has a thread for each core, with which recorded cases have been compared.
    """
    start = subprocess.Popen.__init__

    def start_on_one_thread(self, *args, env=None, **options):
        env = {'TF_NUM_INTRAOP_THREADS': '1', **(os.environ if env is None else env)}
        start(self, *args, env=env, **options)

    with mock.patch.object(subprocess.Popen, '__init__', start_on_one_thread):
        yield


@pytest.fixture(scope='session')
def fork_server(processes_compute_on_one_thread):
    """Start, on first use, the server that forks processes without the import of TensorFlow."""
    from tests import processes

    server = processes.Server()
    yield server
    server.close()


@pytest.fixture(scope='module')
def forked_processes(fork_server):
    """Fork the processes that a module starts, where that is equivalent, see `tests.processes`."""
    from tests import processes

    with mock.patch.object(subprocess, 'Popen', processes.make_popen(fork_server)):
        yield


@pytest.fixture
def started_processes():
    """Start the processes of one test without a fork, in a module with forked processes."""
    with mock.patch.object(subprocess, 'Popen', _STARTED):
        yield


@pytest.fixture(scope='module')
def uncopied_onnx_graphs():
    """Let tf2onnx not copy the graph before each of its passes, half of the time of a conversion.

    It takes the copy where a pass fails. With any value of this variable that is an error.
    """
    with mock.patch.dict(os.environ, TF2ONNX_CATCH_ERRORS='FALSE'):
        yield


@pytest.fixture
def drawn_curves():
    """Draw the curves of the runs of one test, see `tests.sessions`."""
    from tests import sessions

    with sessions.with_curves():
        yield


@pytest.fixture(scope='module')
def shallow_networks():
    """Build the networks of a module with few layers, see `tests.shallow`."""
    from tests import shallow

    with shallow.networks():
        yield


@pytest.fixture(scope='module')
def no_initial_values():
    """Build the graphs of a module without initial values, see `tests.initial_values`."""
    from tests import initial_values

    with initial_values.left_out():
        yield


@pytest.fixture
def initial_values():
    """Restore initial values for one test, in a module without them."""
    from tests import initial_values

    with initial_values.drawn():
        yield
