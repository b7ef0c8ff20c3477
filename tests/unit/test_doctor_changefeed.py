"""What `doctor` says where the newest messages are not what the settings say of the changefeed."""

import pytest

from pipeline.cli.checkup import changefeed
from pipeline.cli.checkup.changefeed import MessageSample
from pipeline.cli.checkup.findings import Mark
from pipeline.model.columns import SourceColumn, TableVersion
from pipeline.model.messages import SeenVersion, TableMessages
from pipeline.model.names import TableName
from pipeline.protocols import images
from pipeline.protocols.images import OldImages

ORDERS = TableName("shop", "orders")
WITH = MessageSample(400, 60.0, whole=False, watermarks=True)
WITHOUT = MessageSample(400, 60.0, whole=False, watermarks=False)
BUSY = MessageSample(400, 0.2, whole=False, watermarks=False)
SHORT = MessageSample(3, 0.2, whole=True, watermarks=False)


def told(said, sample):
    found = list(changefeed.watermarks(said, sample))
    assert all((one.mark, one.about) == (Mark.NOTE, "changefeed") for one in found)
    return found


class TestWatermarks:
    @pytest.mark.parametrize("sample", [WITHOUT, SHORT])
    def test_a_setting_that_promises_watermarks_which_do_not_come_is_told_with_what_is_lost(self, sample):
        (one,) = told(True, sample)
        assert one.sentence.startswith(
            "changefeed.avro-enable-watermark is true, but there is no watermark among the newest "
        )
        assert "TRUNCATE, DROP and RENAME never arrive" in one.sentence
        assert "enable-tidb-extension=true" in one.todo
        assert "docs/reference/protocols/avro.md" in one.todo

    def test_a_setting_that_denies_watermarks_which_come_is_told(self):
        (one,) = told(False, WITH)
        assert one.sentence.startswith("changefeed.avro-enable-watermark is false, but the messages have watermarks")
        assert "set it to true" in one.todo

    def test_where_the_settings_say_nothing_a_changefeed_without_watermarks_is_hinted_at(self):
        (one,) = told(None, WITHOUT)
        assert one.sentence.startswith(
            "no watermark among the newest 400 messages (within 60 s): TRUNCATE, DROP and RENAME"
        )
        assert "avro-enable-watermark=true" in one.todo

    @pytest.mark.parametrize(("said", "sample"), [(True, WITH), (None, WITH), (False, WITHOUT), (False, SHORT)])
    def test_nothing_is_said_where_messages_are_as_the_settings_say(self, said, sample):
        assert told(said, sample) == []

    def test_a_moment_of_a_busy_changefeed_proves_nothing(self):
        (one,) = told(True, BUSY)
        assert "the time is too short to know" in one.sentence
        assert told(None, BUSY) == told(False, BUSY) == []


class TestOldValues:
    def test_a_setting_that_denies_old_values_which_come_is_told(self):
        (one,) = changefeed.old_values(False, OldImages(rows=10, updates=3))
        assert one.sentence.startswith("changefeed.enable-old-value is false, but 3 updates of 10 rows carry")
        assert list(changefeed.old_values(False, OldImages(rows=10, updates=0))) == []

    @pytest.mark.parametrize(("said", "bare"), [(True, False), (True, True), (None, True)])
    def test_rows_without_old_values_are_told_where_the_settings_promise_them_or_deletes_give_it_away(self, said, bare):
        (one,) = changefeed.old_values(said, OldImages(rows=10, updates=0, bare_deletes=bare))
        assert one.sentence.startswith("none of 10 rows carries old values")
        assert ("deletes carry only the key" in one.sentence) is bare
        assert "enable-old-value: false" in one.todo

    @pytest.mark.parametrize(
        ("said", "shown"),
        [
            (None, OldImages(10, 0)),
            (None, OldImages(10, 2, bare_deletes=True)),
            (True, OldImages(10, 2)),
            (True, OldImages(0, 0)),
        ],
    )
    def test_nothing_is_said_where_only_inserts_may_have_come_or_old_values_do(self, said, shown):
        assert list(changefeed.old_values(said, shown)) == []


def version(*names, handle=("id",)):
    return TableVersion(ORDERS, 1, tuple(SourceColumn(name, "INT", "int") for name in names), handle)


def seen(*names, key_only=False):
    return SeenVersion(version(*names), {}, {}, 1, key_only=key_only)


def test_updates_of_simple_that_would_be_dead_letters_are_told():
    (one,) = changefeed.updates_without_old_values(OldImages(rows=10, updates=2, without=3))
    assert one.sentence.startswith("3 updates of 10 rows carry no old values")
    assert list(changefeed.updates_without_old_values(OldImages(rows=10, updates=2))) == []


@pytest.mark.parametrize(
    ("versions", "bare"),
    [
        ([seen("id", "n"), seen("id", key_only=True)], True),
        ([seen("id"), seen("id", key_only=True)], False),
        ([seen("id", key_only=True)], False),
    ],
)
def test_deletes_are_bare_where_the_table_has_more_than_its_key(versions, bare):
    assert images._has_bare_deletes(TableMessages(ORDERS, tuple(versions))) is bare
