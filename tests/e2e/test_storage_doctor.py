"""What `doctor` says of a changefeed's files, before a run and after it."""

import pytest
from golden.corpus import GoldenCase
from golden.storage import Tree, taken

from pipeline.cli.checkup import storage
from pipeline.runtime.session import session

pytestmark = [pytest.mark.spark, pytest.mark.e2e]


def told(settings):
    return [str(finding) for finding in storage.examined(settings, session(settings))]


def test_what_there_is_how_it_is_laid_out_and_what_could_be_deleted(tmp_path):
    case = GoldenCase("key_updates", "storage_csv_day")
    tree = Tree.of(case, tmp_path)
    tree.show(tree.paths())
    tree.write("ku/t_pk/_SUCCESS", b"")
    (tree.shown / "link").symlink_to(tmp_path)
    settings = tree.settings(tmp_path)
    taken(settings)
    schema = next(path for path in tree.paths() if "/t_comp/meta/schema" in path)
    tree.write(schema, (tree.whole / schema).read_bytes().replace(b'"INT"', b'"BIGINT"', 1))
    settings = tree.settings(tmp_path, cleanup="delete")
    text = "\n".join(told(settings))
    rows = len(tree.rows())
    assert f"✓ storage       {tree.shown}: {rows} files of rows, " in text
    assert "✓ changefeed    files have one folder per day, numbers of 20 digits (" in text
    assert "one folder per partition" in text
    assert "! storage       a run skips 1 file and 1 link or folder: ku/t_pk/_SUCCESS, link" in text
    assert f"✗ storage       SCHEMA_FILE_DAMAGED: {schema}" in text
    assert "`metadata` was last written" in text
    assert "✓ cleanup       source.cleanup: a run deletes " in text
    assert "are gone; the oldest" not in text


def test_what_the_settings_say_otherwise_and_files_that_are_gone(tmp_path):
    tree = Tree.of(GoldenCase("key_updates", "storage_csv_day"), tmp_path)
    tree.show(tree.paths())
    first = next(path for path in tree.rows() if path.endswith("1.csv"))
    tree.copy_under_another_number(first)
    (tree.shown / first).unlink()
    settings = tree.settings(tmp_path)
    changefeed = {"date-separator": "month", "csv": {"include-commit-ts": True, "output-old-value": False}}
    asserted = type(settings).model_validate(
        {**settings.model_dump(by_alias=True, exclude_defaults=True), "changefeed": changefeed}
    )
    text = "\n".join(told(asserted))
    assert "! changefeed    changefeed.date-separator is month, but the files say day; they are read as written" in text
    assert "! changefeed    changefeed.csv.output-old-value is false, but the files say true" in text
    assert "! changefeed    the first files of 1 folder are gone; the oldest that is left is " in text
    assert "cleanup" not in text


def test_partitions_that_share_a_folder(tmp_path):
    tree = Tree.of(GoldenCase("key_updates", "storage_csv_none"), tmp_path)
    tree.show(tree.paths())
    (line,) = (line for line in told(tree.settings(tmp_path)) if "tiflow#11979" in line)
    assert line.startswith("✗ changefeed    the partitions of ku/t_part share their folders")


WRITERS = "✗ changefeed    several writers (enable-table-across-nodes) share ku/"
KEYLESS = "! changefeed    no primary key in ku/"
NO_MEMBERS = "! changefeed    no members of ENUM or SET in the schema files of types/"


@pytest.mark.parametrize(
    ("scenario", "configuration", "sentences"),
    [
        ("key_updates", "new_storage_canal_across", [KEYLESS, WRITERS]),
        ("all_types", "storage_canal_none", [NO_MEMBERS]),
        ("all_types", "storage_csv_none", []),
    ],
)
def test_what_files_do_not_tell_of_tables(tmp_path, scenario, configuration, sentences):
    tree = Tree.of(GoldenCase(scenario, configuration), tmp_path)
    tree.show(tree.paths())
    lines = [line for line in told(tree.settings(tmp_path)) if "/" in line and line[2:].startswith("changefeed")]
    assert len(lines) == len(sentences), lines
    for line, sentence in zip(sorted(lines), sorted(sentences), strict=True):
        assert line.startswith(sentence)
