"""A checkpoint that cannot be read is no obstacle: the tables tell where a run goes on."""

import pytest

from pipeline.model.places import Partition
from pipeline.sources.kafka.checkpoint import can_continue, planned_batch
from pipeline.sources.kafka.offsets import KafkaState
from pipeline.sources.source import Committed, Planned

GOOD = 'v1\n{"batchWatermarkMs":0}\n{"orders":{"0":%d}}'
NOTHING = KafkaState({}, {}, {})


def checkpoint(folder, *texts):
    (folder / "offsets").mkdir()
    for number, text in enumerate(texts):
        (folder / "offsets" / str(number)).write_bytes(text if isinstance(text, bytes) else text.encode())
    return planned_batch(folder)


def test_the_newest_two_files_tell_a_batch(tmp_path):
    assert checkpoint(tmp_path, GOOD % 3, GOOD % 5, GOOD % 9) == Planned(
        {Partition("orders", 0): 5}, {Partition("orders", 0): 9}
    )


@pytest.mark.parametrize("damaged", [b"\0" * 40, b"", b'v1\n{}\n{"orders":{"0":', b"\xff\xfe"], ids=str)
@pytest.mark.parametrize("newest", [True, False])
def test_where_one_of_them_is_damaged_nothing_is_planned(tmp_path, damaged, newest):
    texts = [GOOD % 3, damaged] if newest else [damaged, GOOD % 3]
    assert checkpoint(tmp_path, *texts) is None


def test_the_tables_do_not_go_on_with_what_is_not_planned():
    assert not can_continue(None, Committed({}, {}), NOTHING)
