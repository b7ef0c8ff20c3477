"""One spelling of where tables lie, for those of earlier versions as well."""

from pathlib import Path

import pytest

from pipeline.warehouse.locations import as_path, as_url, is_same, real_path


@pytest.mark.parametrize(
    "written", ["/w/data/a b", "file:/w/data/a b", "file:///w/data/a b", "FILE:/w/data/a b", "file://host/w/data/a b"]
)
def test_a_place_on_this_machine_has_one_url_and_one_path(written):
    assert as_url(written) == "file:///w/data/a b"
    assert as_path(written) == Path("/w/data/a b")


@pytest.mark.parametrize("written", ["s3://lake/w", "gs://lake/w", "abfss://c@a.dfs.core.windows.net/w"])
def test_a_store_s_url_stays_as_it_is(written):
    assert (as_url(written), as_path(written), real_path(written)) == (written, None, None)


@pytest.mark.parametrize("written", ["/w#1/data", "/w?/data"])
def test_a_folder_that_a_url_would_cut_short_stays_without_a_scheme(written):
    assert as_url(written) == written
    assert as_path(written) == Path(written)


def test_percent_signs_are_letters():
    assert as_path(as_url("/w%20x/data")) == Path("/w%20x/data")


def test_places_are_compared_by_what_they_are(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    assert is_same(f"{tmp_path}/there", f"file://{tmp_path}/link/")
    assert not is_same(f"{tmp_path}/there", f"file://{tmp_path}/link2")
    assert is_same("s3://lake/w/", "s3://lake/w")
    assert not is_same("s3://lake/w", "/lake/w")
