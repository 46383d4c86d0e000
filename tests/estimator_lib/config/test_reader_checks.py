"""What input readers have to have in common; each by itself is in `test_validation`."""

import pytest

import model_fns
from estimator_lib import config as config_lib
from estimator_lib import errors
from estimator_lib.config import message_checks, reader_checks
from estimator_lib.config.rules import ConfigRules
from estimator_lib.config.section import Section

# Fields of a task that reads all examples in one way, and what decides about each.
SAME = {
    **dict.fromkeys(('use_display_name', 'load_instance_masks', 'mask_type', 'num_keypoints'), ''),
    'max_number_of_boxes': 'train_config.max_number_of_boxes',
}


def problems(text, same=SAME):
    config = config_lib.parse_pipeline_config(text, 'text')
    return {problem.path: problem.text for problem in reader_checks.check_agreement(config, same)}


def test_readers_that_agree():
    assert problems('') == {}
    text = 'label_map_path: "a" load_instance_masks: true mask_type: PNG_MASKS num_keypoints: 2'
    readers = f'train_input_reader {{ {text} }} eval_input_reader {{ {text} }}'
    assert problems(readers) == {}


def test_what_a_reader_does_not_say_is_what_the_first_says():
    assert problems('train_input_reader { num_keypoints: 2 } eval_input_reader {}') == {}


def test_each_reader_may_have_its_own_label_map():
    text = "train_input_reader { label_map_path: 'a' } eval_input_reader { label_map_path: 'b' }"
    assert problems(text) == problems(text, {}) == {}


@pytest.mark.parametrize(
    ('first', 'second'),
    [
        ('use_display_name: true', 'use_display_name: false'),
        ('', 'load_instance_masks: true'),
        ('mask_type: PNG_MASKS', 'mask_type: NUMERICAL_MASKS'),
        ('num_keypoints: 3', 'num_keypoints: 4'),
    ],
)
def test_fields_that_have_to_be_the_same(first, second):
    text = f'train_input_reader {{ {first} }} eval_input_reader {{ {second} }}'
    assert list(problems(text)) == [f'eval_input_reader.0.{second.split(":")[0]}']
    assert problems(text, {}) == {}


def test_without_a_training_reader_the_first_evaluation_decides():
    text = 'eval_input_reader { num_keypoints: 3 } eval_input_reader { num_keypoints: 4 }'
    assert list(problems(text)) == ['eval_input_reader.1.num_keypoints']


def test_the_number_of_boxes_of_the_training_config_decides_in_training():
    text = """
    train_config { max_number_of_boxes: 50 }
    train_input_reader { max_number_of_boxes: 100 }
    eval_input_reader { max_number_of_boxes: 200 }
    """
    found = problems(text)
    assert list(found) == ['train_input_reader.max_number_of_boxes']
    assert found['train_input_reader.max_number_of_boxes'].startswith(
        '100; train_config.max_number_of_boxes is 50, '
    )


def test_evaluations_take_the_same_number_of_boxes_whatever_training_takes():
    text = 'train_input_reader { max_number_of_boxes: 10 } eval_input_reader { %s }'
    both = 'max_number_of_boxes: 100'
    assert problems(text % both) == {}
    more = f'{text % both} eval_input_reader {{ max_number_of_boxes: 50 }}'
    assert list(problems(more)) == ['eval_input_reader.1.max_number_of_boxes']


def test_an_evaluation_by_itself_looks_at_the_training_reader_too():
    text = """
    model { ssd { num_classes: 2 } }
    train_input_reader { num_keypoints: 1 }
    eval_input_reader { num_keypoints: 2 tf_record_input_reader { input_path: 'c' } }
    """
    config = config_lib.parse_pipeline_config(text, 'text')
    with pytest.raises(errors.ConfigError, match=r'eval_input_reader\.0\.num_keypoints: '):
        model_fns.validate(config, 'evaluate')
    with pytest.raises(errors.ConfigError) as caught:
        model_fns.validate(config, 'export')
    assert 'num_keypoints' not in str(caught.value)


@pytest.mark.parametrize(
    ('fields', 'expected'),
    [
        ('cache: MEMORY cache_max_megabytes: 5', {}),
        ('cache: FILE cache_max_megabytes: 5 cache_folder: "/disk"', {}),
        ('cache_max_megabytes: 5', {'cache_max_megabytes': 'it needs cache: MEMORY or FILE.'}),
        ('cache: RECORDS cache_max_megabytes: 5', {'cache_max_megabytes': 'it needs cache: MEM'}),
        ('cache: MEMORY cache_folder: "/disk"', {'cache_folder': 'it needs cache: FILE.'}),
        (
            'sample_from_datasets_weights: 1 examples_per_batch: 2',
            {'examples_per_batch': 'it excludes sample_from_datasets_weights; set one.'},
        ),
        ('cache: FILE cache_folder: "gs://x"', {'cache_folder': "'gs://x'; expected a folder of"}),
    ],
)
def test_a_cache_and_what_is_said_of_it(fields, expected):
    text = f'train_input_reader {{ tf_record_input_reader {{ input_path: "a" }} {fields} }}'
    reader = config_lib.parse_pipeline_config(text, 'text').train_input_reader
    section = Section(reader, 'reader')
    found = {
        one.path: one.text
        for one in (
            *reader_checks.check_reader(section),
            *message_checks.find_problems(ConfigRules(), section),
        )
    }
    assert found.keys() == {f'reader.{name}' for name in expected}
    assert all(part in found[f'reader.{name}'] for name, part in expected.items())


def file_problems(text, needed=True):
    config = config_lib.parse_pipeline_config(f'train_input_reader {{ {text} }}', 'text')
    reader = config.train_input_reader
    return {
        p.path: p.text
        for p in reader_checks.check_reader(Section(reader, 'train_input_reader'), needed)
    }


@pytest.mark.parametrize(
    ('text', 'path', 'said'),
    [
        (
            'voc_input_reader {}',
            'voc_input_reader.image_path',
            'not set; expected folders of images',
        ),
        (
            'voc_input_reader { image_path: "a" image_path: "" annotation_path: ["b", "c"] }',
            'voc_input_reader.image_path.1',
            'an empty path',
        ),
        (
            'voc_input_reader { image_path: "a" }',
            'voc_input_reader.annotation_path',
            '0 values for 1 image_path; expected one for each.',
        ),
        (
            'folder_input_reader { image_path: "a" options { list_path: ["b", "c"] } }',
            'folder_input_reader.options.list_path',
            '2 values for 1 image_path',
        ),
        (
            'folder_input_reader { image_path: "a" } examples_per_batch: [1, 2]',
            'examples_per_batch',
            '2 values for 1 image_path',
        ),
        (
            'folder_input_reader { image_path: "a" } input_type: TF_SEQUENCE_EXAMPLE',
            'input_type',
            'expected tf_record_input_reader',
        ),
    ],
)
def test_readers_of_files(text, path, said):
    problems = file_problems(text)
    assert list(problems) == [f'train_input_reader.{path}']
    assert said in problems[f'train_input_reader.{path}']


def test_readers_of_files_without_a_problem():
    text = 'voc_input_reader { image_path: ["a", "b"] annotation_path: ["c", "d"] }'
    assert file_problems(f'{text} sample_from_datasets_weights: [1, 2]') == {}
    assert file_problems('voc_input_reader {}', needed=False) == {}
