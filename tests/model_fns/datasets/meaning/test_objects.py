"""Flags, labels, groups and keys of all objects of a data set."""

import pytest

from model_fns.datasets.meaning import objects
from model_fns.datasets.meaning.annotated import CROWD, DIFFICULT, Annotated, Object
from model_fns.datasets.meaning.issues import Severity


def image(*items, place='image', **fields):
    fields.setdefault('num_kept', len(items))
    return Annotated(place, (100, 200), items, **fields)


def found(check, *images):
    for each in images:
        check.add(each)
    return check.issues()


@pytest.mark.parametrize(
    ('flags', 'severity', 'said'),
    [
        ([CROWD] * 4, Severity.ERROR, 'all 4 objects are crowds (iscrowd: 1): training ignores'),
        ([CROWD] * 2 + [''] * 2, Severity.WARNING, '2 of 4 objects are crowds'),
        ([DIFFICULT] * 3, Severity.WARNING, 'all 3 objects are difficult: an evaluation does not'),
        ([CROWD] + [''] * 19, None, ''),
        (['regions to ignore'] * 2, Severity.ERROR, 'all 2 objects are regions to ignore'),
        (['regions to ignore'] * 2 + [''], None, ''),
        ([''] * 3, None, ''),
        ([], None, ''),
    ],
)
def test_ignored_objects(flags, severity, said):
    items = [Object(f'object {index}', ignored=flag) for index, flag in enumerate(flags)]
    issues = found(objects.Ignored(), image(*items))
    if severity is None:
        assert issues == []
        return
    (issue,) = issues
    assert issue.severity is severity and said in str(issue)
    assert '(first: object 0)' in str(issue)


@pytest.mark.parametrize(
    ('labels', 'said'),
    [
        ([1, 2, 3], ''),
        ([2], ''),
        (
            [0, 1, 2],
            '1 of 3 objects have the label 0: labels start at 0, it seems; expected 1 to 3',
        ),
        (
            [2, 3, 4],
            '1 of 3 objects have the label 4: labels start at 2, it seems; expected 1 to 3',
        ),
        ([1, 4], ''),  # an unknown class, not another start
        ([9], ''),
        ([None], ''),
    ],
)
def test_labels_start_where_they_should(labels, said):
    items = [Object(f'object {label}', label=label) for label in labels]
    issues = found(objects.Labels(range(1, 4)), image(*items))
    assert [issue.severity for issue in issues] == [Severity.ERROR] * bool(said)
    assert not said or said in str(issues[0])


def test_numbers_from_0_that_start_at_1():
    items = [Object('a.txt, line 1', label=label) for label in (1, 2)]
    (issue,) = found(objects.Labels(range(0, 2)), image(*items))
    assert 'labels start at 1, it seems; expected 0 to 1' in str(issue)


def test_classes_without_objects():
    items = [Object('x', name='cat'), Object('x', name='dog')]
    (issue,) = found(objects.Classes(['cat', 'cow', 'dog', 'emu']), image(*items))
    assert str(issue) == '2 of 4 classes have no object: cow, emu'
    assert found(objects.Classes(['cat', 'dog']), image(*items)) == []
    assert found(objects.Classes(['cat']), image()) == []  # nothing is known of any class


def test_images_that_lose_their_objects_or_share_an_id():
    lost = image(Object('x'), place='b.png', num_kept=0)
    once, twice = image(source_id='7'), image(place='c.png', source_id='7')
    first, second = found(objects.Images(), once, image(Object('x')), lost, twice)
    assert str(first) == '1 of 4 images lose all of their objects, and are left out (first: b.png)'
    assert str(second) == '1 of 4 images have the source id of an image before them (first: c.png)'


def test_groups_of_distant_shapes():
    # A tenth of the longer side is 20 pixels.
    items = [Object('a.json', gap=20.0), Object('b.json', gap=21.0), Object('c.json', gap=90.0)]
    (issue,) = found(objects.Groups(), image(*items))
    assert (issue.number, issue.example) == (2, 'b.json')
    assert 'up to 90 pixels apart, because these have one group_id' in str(issue)


def test_keys_that_nobody_reads():
    items = [Object('x', unread=['angle']), Object('y'), Object('z', unread=['angle', 'depth'])]
    (issue,) = found(objects.Unread(), image(*items))
    assert str(issue) == "2 of 3 objects have keys that nobody reads: 'angle', 'depth' (first: x)"


def test_equal_images():
    images = [image(place=name, digest=digest) for name, digest in ('ax', 'by', 'cx', 'dx', 'e ')]
    images.append(image(place='f', digest=''))
    images.append(image(place='g', digest=''))
    (issue,) = found(objects.Images(), *images)
    assert str(issue) == '2 of 7 images are equal to an image before them (first: c)'
    assert issue.severity is Severity.WARNING
