from __future__ import annotations

import glob

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import tf_estimator
from estimator_lib.hooks import progress, summaries
from estimator_lib.task import SOURCE_ID, Shown

tf1 = tf.compat.v1


def events(folder):
    """(step, tag, value) of all events in a folder; images as uint8 arrays."""
    found = []
    for path in sorted(glob.glob(f'{folder}/*')):
        for event in tf1.train.summary_iterator(path):
            for value in event.summary.value:
                content = value.simple_value
                if value.HasField('image'):
                    with tf.Graph().as_default(), tf1.Session() as session:
                        encoded = value.image.encoded_image_string
                        content = session.run(tf.io.decode_png(encoded))
                found.append((event.step, value.tag, content))
    return found


def test_scalars_and_pictures_are_written(tmp_path):
    picture = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    summaries.write(str(tmp_path), 7, {'accuracy': 0.5}, {'matrix': picture})
    scalar, image = events(tmp_path)
    assert scalar == (7, 'accuracy', 0.5)
    assert image[:2] == (7, 'matrix')
    np.testing.assert_array_equal(image[2], picture)


def test_nothing_to_say_makes_no_file(tmp_path):
    summaries.write(str(tmp_path), 7, {}, {})
    assert list(tmp_path.iterdir()) == []


def written(folder):
    """(tag, step, value) of each scalar and histogram that was written."""
    found = []
    for path in sorted(folder.glob('events.*')):
        for event in tf1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                number = value.simple_value if value.HasField('simple_value') else None
                found.append((value.tag, event.step, number))
    return found


def train(folder, steps, every_n_steps, histogram=False, *wait):
    """Train something whose scalar is the step, plus 100."""
    with tf.Graph().as_default():
        step = tf1.train.get_or_create_global_step()
        train_op = tf1.assign_add(step, 1)
        if histogram:
            summaries.histograms([tf1.get_variable('scope/a', [2])])
        with tf.control_dependencies([train_op]):
            scalar = tf.cast(step.read_value(), tf.float32) + 100.0
        hooks, _ = summaries.training_hooks(
            {'Loss/total': scalar}, str(folder), every_n_steps, 8, *wait
        )
        with tf1.train.MonitoredSession(hooks=hooks) as session:
            for _ in range(steps):
                session.run(train_op)
    return written(folder)


def test_scalars_of_training_are_written_first_and_then_every_n_steps(tmp_path):
    found = train(tmp_path, 9, 4)
    speeds = [(tag, step) for tag, step, _ in found if tag != 'Loss/total']
    speed = ('speed/steps_per_second', 'speed/examples_per_second')
    assert speeds == [(tag, step) for step in (4, 8) for tag in speed]
    assert [one for one in found if one[0] == 'Loss/total'] == [
        ('Loss/total', step, pytest.approx(step + 100)) for step in (1, 4, 8)
    ]


def test_speed_and_waiting_are_of_the_time_since_the_last_event(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, 'monotonic', lambda: now[0])
    hook = summaries.TrainingScalars({}, str(tmp_path), 4, 16, tf.constant(0.0))
    hook.step = 0
    hook.session_begun()
    for step in range(1, 9):
        now[0] += 0.5  # two steps a second
        with progress.paused():
            now[0] += 7.0  # an evaluation
        hook.step = step
        hook.step_done(None, tf1.train.SessionRunValues(({}, [0.125]), None, None))
    assert written(tmp_path) == [
        (tag, step, value)
        for step in (4, 8)
        for tag, value in (
            ('speed/steps_per_second', 2.0),
            ('speed/examples_per_second', 32.0),
            ('speed/waiting_for_data', 0.25),
        )
    ]


def test_a_save_writes_the_scalars_of_its_step_once(tmp_path):
    hook = summaries.TrainingScalars({'a': None}, str(tmp_path), 4, 16)
    listener = summaries.ScalarsAtSaves(hook)
    hook.step = 0
    hook.session_begun()
    listener.before_save(None, 0)  # no step has run yet
    for step in range(1, 6):
        hook.step = step
        hook.step_done(None, tf1.train.SessionRunValues(({'a': step + 0.5}, []), None, None))
        if step in (3, 4):
            listener.before_save(None, step)
    found = [(step, value) for tag, step, value in written(tmp_path) if tag == 'a']
    assert found == [(1, 1.5), (3, 3.5), (4, 4.5)]


def test_pictures_of_the_batch_are_drawn_first_and_every_n_steps(tmp_path):
    with tf.Graph().as_default():
        step = tf1.train.get_or_create_global_step()
        numbers = tf.cast(step.read_value(), tf.int32) * 10 + tf.range(3)
        source_ids = tf.strings.as_string(numbers)
        batch = {SOURCE_ID: source_ids}, {'class': numbers}, {'label': numbers}
        with tf.control_dependencies([numbers]):
            train_op = tf1.assign_add(step, 1)

        def shade(features, outputs, labels):
            assert outputs['class'] == labels['label']
            assert features[SOURCE_ID] == b'%d' % labels['label']
            return np.full([1, 1, 3], labels['label'], np.uint8)

        hook = summaries.TrainingPictures(shade, batch, str(tmp_path), 4, count=2)
        with tf1.train.MonitoredSession(hooks=[hook]) as session:
            for _ in range(9):
                session.run(train_op)
    found = [(step, tag, int(picture[0, 0, 0]) % 10) for step, tag, picture in events(tmp_path)]
    assert found == [(step, f'training/{index}', index) for step in (1, 4, 8) for index in range(2)]


def test_activations_have_a_histogram_and_their_part_of_zeros():
    with tf.Graph().as_default(), tf1.Session() as session:
        summaries.activations({'conv1': tf.constant([0.0, 0.0, 0.0, 4.0])})
        summary = tf1.Summary.FromString(session.run(tf1.summary.merge_all()))
    histogram, scalar = summary.value
    assert (histogram.tag, histogram.histo.max) == ('activations/conv1', 4.0)
    assert (scalar.tag, scalar.simple_value) == ('sparsity/conv1', 0.75)


def test_training_writes_histograms_where_there_are_any_with_the_scalars(tmp_path):
    found = [
        (tag, step)
        for tag, step, _ in train(tmp_path, 9, 4, histogram=True)
        if not tag.startswith('speed/')
    ]
    assert found == [
        (tag, step) for step in (1, 4, 8) for tag in ('Loss/total', 'variables/scope/a')
    ]


def test_training_writes_nothing_when_not_asked_to(tmp_path):
    assert train(tmp_path, 2, 0) == []


def draw(features, outputs, labels, shown):
    """A picture whose one pixel tells which example it is of; none of example 2."""
    if outputs['class'] == 2:
        return None
    assert features[SOURCE_ID] == b'photos/%d.jpg' % outputs['class']
    assert labels is None or labels['label'] == outputs['class']
    assert shown == Shown(least_score=0.25)
    return np.full([1, 1, 3], outputs['class'], np.uint8)


@pytest.mark.parametrize(
    ('with_labels', 'count', 'expected'),
    [(True, 5, [0, 1, 3, 4]), (False, 1, [0]), (True, 100, [0, 1, 3, 4, 5, 6])],
)
def test_the_first_examples_of_an_evaluation_are_drawn(tmp_path, with_labels, count, expected):
    def model_fn(features, labels, mode):
        number = features['number']
        summaries.offer_examples(
            {SOURCE_ID: tf.strings.join(['photos/', tf.strings.as_string(number), '.jpg'])},
            {'class': number},
            {'label': number} if with_labels else None,
        )
        step = tf1.train.get_or_create_global_step()
        return tf_estimator.EstimatorSpec(mode, loss=tf.reduce_sum(number), train_op=step)

    def input_fn():
        return tf.data.Dataset.range(7).batch(3).map(lambda number: {'number': number})

    config = tf_estimator.RunConfig(str(tmp_path), log_step_count_steps=None)
    estimator = tf_estimator.Estimator(model_fn, config=config)
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.train.create_global_step()
        session.run(tf1.global_variables_initializer())
        tf1.train.Saver().save(session, str(tmp_path / 'model.ckpt-0'))
    files = tmp_path / 'files'
    hook = summaries.ExamplePictures(draw, str(tmp_path / 'pictures'), count, str(files))
    estimator.evaluate(input_fn, hooks=[hook])
    hook.write(4, Shown(least_score=0.25))
    found = events(tmp_path / 'pictures')
    assert [tag for _, tag, _ in found] == [f'examples/{place}' for place in range(len(expected))]
    assert [picture[0, 0, 0] for _, _, picture in found] == expected
    names = sorted(path.name for path in files.iterdir())
    assert names == [f'{number + 1:03d}_{number}.png' for number in expected]


def test_writers_of_one_second_and_folder_replace_no_events(tmp_path):
    for step in range(2):
        with summaries.writers_closed(str(tmp_path)):
            summaries.write(str(tmp_path), step, {'loss': float(step)})
    found = [
        (event.step, event.summary.value[0].simple_value)
        for path in sorted(glob.glob(f'{tmp_path}/events.out.tfevents.*'))
        for event in tf1.train.summary_iterator(path)
        if event.summary.value
    ]
    assert sorted(found) == [(0, 0.0), (1, 1.0)]
