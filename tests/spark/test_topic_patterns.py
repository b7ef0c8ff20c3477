"""`topic_pattern` is a regular expression of Java's: Java says whether it is one, and which topics it means."""

import pytest
from spark.sessions import SETTINGS

from pipeline.errors import SettingsError
from pipeline.runtime.session import session
from pipeline.settings import parse
from pipeline.sources.kafka.cluster import Cluster
from pipeline.sources.kafka.reader import stream_options

pytestmark = pytest.mark.spark

TOPICS = ("pr_hl", "pr_ab", "pr_a1", "PR_HL", "xpr_hl", "pr_hl_more", "__pr_hl", "__consumer_offsets", "a.b-c")


@pytest.fixture
def opened(tmp_path):
    """Opens Kafka's client for a pattern, or for listed topics; nobody answers, and nobody is asked."""
    made = []

    def open_with(source):
        settings = parse(SETTINGS.format(folder=tmp_path).replace("topics: [none]", source), tmp_path)
        made.append(Cluster(session(settings), settings))
        return made[-1], settings

    yield open_with
    for cluster in made:
        cluster.close()


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        (r"pr_\p{Alpha}{2}", {"pr_hl", "pr_ab"}),
        ("(?<db>pr)_hl", {"pr_hl"}),
        ("(?i)pr_hl", {"pr_hl", "PR_HL"}),
        ("pr_[a-z&&[^b]]+", {"pr_hl"}),
        ("pr_hl|pr_a1", {"pr_hl", "pr_a1"}),
        (r"a\.b-c", {"a.b-c"}),
        (".*consumer.*", set()),
        ("nothing", set()),
        (".*", {topic for topic in TOPICS if not topic.startswith("__")}),
    ],
)
def test_it_means_what_java_says(opened, pattern, meant):
    cluster, settings = opened(f"topic_pattern: '{pattern}'")
    assert cluster.wanted(TOPICS) == meant
    assert cluster.wanted(()) == set()
    told = stream_options(settings, "{}", TOPICS, awaited=False)["subscribePattern"]
    assert {topic for topic in TOPICS if cluster._jvm.java.util.regex.Pattern.matches(told, topic)} == meant


@pytest.mark.parametrize("pattern", ["(?P<db>pr)_hl", "tidb_(.*", "a{2,1}", r"\p{Nothing}"])
def test_one_that_java_refuses_is_refused_with_its_setting(opened, pattern):
    with pytest.raises(SettingsError) as refusal:
        opened(f"topic_pattern: '{pattern}'")
    assert refusal.value.message.startswith("source.topic_pattern: Java refuses the regular expression")
    assert pattern in refusal.value.message
    assert "near index" not in refusal.value.message
    assert "(?<name>" in refusal.value.hint


def test_many_topics_are_asked_at_once(opened):
    cluster, _ = opened("topic_pattern: 'tidb_.*7'")
    many = [f"tidb_{number}" for number in range(5000)]
    assert cluster.wanted(many) == {name for name in many if name.endswith("7")}


def test_listed_topics_are_meant_by_their_names(opened):
    cluster, _ = opened("topics: [pr_hl, elsewhere]")
    assert cluster.wanted(TOPICS) == {"pr_hl"}
