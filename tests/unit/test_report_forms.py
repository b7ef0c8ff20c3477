"""The forms of a report: escaped, bounded, self-contained, and of one mind."""

import json
import re
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from unit import report_shop as shop

from pipeline.report import assemble, document, markdown, page
from pipeline.report.chart import Chart
from pipeline.report.ledger import columns
from pipeline.report.markdown import code, escaped
from pipeline.report.phrases import figures
from pipeline.report.wording import clean, committed, duration, enumerated

FORMS = (page, markdown, document)
SCENES = (dict, shop.quiet, shop.warned, shop.set_aside, shop.held, shop.stopped, shop.busy)
TAGS = """html head meta title style body header main footer nav section article p b span time h1 h2 h3 dl div dt dd
small ul li i a figure figcaption svg path rect table thead tbody tr th td code pre br"""
ATTRIBUTES = """lang charset http-equiv content name class id aria-label aria-hidden role href title datetime scope
colspan d x y width height viewbox preserveaspectratio"""


def made(rows):
    return assemble(rows, "shop", shop.NOW)


class Reader(HTMLParser):
    """What a browser would see: tags, attributes, text."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.links, self.text, self.open = set(), set(), set(), [], []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links |= {value for name, value in attrs if name in {"href", "src"}}
        if tag not in {"meta", "br", "path", "rect"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag != "rect":
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(text):
    reader = Reader()
    reader.feed(text)
    reader.close()
    return reader


def is_sound(text):
    found = read(text)
    assert found.tags <= set(TAGS.split())
    assert found.attributes <= set(ATTRIBUTES.split())
    assert all(link.startswith("#") for link in found.links)
    assert found.open == []
    return found


class TestPage:
    @pytest.mark.parametrize("scene", SCENES)
    def test_it_needs_nothing_else(self, scene):
        text = page(made(scene()))
        is_sound(text)
        style = text[text.index("<style>") : text.index("</style>")]
        assert "url(" not in style
        assert "@import" not in style
        assert "default-src 'none'" in text

    def test_hostile_values_stay_text(self):
        found = is_sound(page(made(shop.busy())))
        assert shop.SCRIPT in "".join(found.text)

    def test_hostile_names_stay_text_in_attributes_too(self):
        rows = shop.busy()
        for found in rows.values():
            for one in found:
                if one["table_name"]:
                    one["table_name"] += shop.HOSTILE
        for one in rows["quality_results"]:
            one["rule"] += shop.HOSTILE
        text = page(made(rows))
        is_sound(text)
        assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e\ud800-\udfff]", text)

    @pytest.mark.parametrize("scene", SCENES)
    def test_empty_parts_say_so(self, scene):
        text = page(made(scene()))
        for part in ("Checks", "Freshness and volume", "Set aside", "Schema changes", "Cuts"):
            body = text[text.index(f"<h2>{part}</h2>") :]
            assert re.search(r'class="(empty|timeline|chart|scroll)"', body[: body.index("</section>")])

    def test_marks_have_words_and_glyphs(self):
        text = page(made(shop.busy()))
        assert 'aria-label="shop.orders total_not_negative, 40 columns: quarantined in 7, passed in 33"' in text
        assert '<i class="quarantined" title="batch 140: quarantined, 2 of ' in text

    @settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
    @given(st.text(max_size=60) | st.sampled_from(["</style><script>", "{{ 7 * 7 }}", "' onload=x", "]]>", "<!--"]))
    def test_no_text_is_markup(self, text):
        rows = {
            "batches": [shop.batch(1)],
            "quality_results": [
                shop.result(
                    1, text, text, success=False, unexpected=1, sample=json.dumps({"because": text, "owner": text})
                )
            ],
            "quarantine": [shop.aside(1, text, [text], 1, message=text, key_values=text, topic=text)],
            "held": [shop.row(1, text, reason=text, status="open")],
            "ddl_history": [shop.row(1, text, commit_ts=1, ddl_type=text, sql=text, action=text, status="")],
            "schemas": [shop.row(1, text, version=1, columns=text)],
            "cuts": [shop.row(1, text, cut_ts=1, cut_time=shop.NOW, level=text, reason=text)],
        }
        report = made(rows)
        is_sound(page(report))
        json.loads(document(report))
        markdown(report).encode()


class TestMarkdown:
    def test_hostile_values_stay_text(self):
        text = re.sub(r"(`+).*?\1", "", markdown(made(shop.busy())))
        assert "<" not in text
        assert "http://" not in text
        assert "[x]" not in text

    def test_every_row_of_a_table_has_its_cells(self):
        lines = markdown(made(shop.busy())).splitlines()
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in lines if line.startswith("| shop.orders | total")}
        assert widths == {8, 7}

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("a|b`c`", r"a\|b\`c\`"),
            ("<b>&amp;</b>", "&lt;b&gt;&amp;amp;&lt;/b&gt;"),
            ("[x](http://a.b) www.c.d", r"\[x\](http:&#47;/a.b) www&#46;c.d"),
            ("two\n\n# lines", "two # lines"),
            ("- a", r"\- a"),
            ("1. a", r"1\. a"),
            ("2.0 s", "2.0 s"),
            ("_a_b_", r"\_a_b\_"),
            ("@team $x$", "&#64;team &#36;x&#36;"),
        ],
    )
    def test_markup_is_escaped(self, text, said):
        assert escaped(text) == said

    def test_code_may_hold_backticks(self):
        assert code("a`b") == "``a`b``"
        assert code("`a|b", in_table=True) == r"`` `a\|b ``"


class TestAgreement:
    @pytest.mark.parametrize("scene", SCENES)
    def test_all_forms_say_the_same(self, scene):
        report = made(scene())
        tree, text, web = (
            json.loads(document(report)),
            markdown(report),
            " ".join("".join(read(page(report)).text).split()),
        )
        assert report.verdict.headline == tree["verdict"]["headline"]
        assert report.verdict.headline in web
        assert escaped(report.verdict.headline) in text
        assert figures(report) in text
        if not report.batches:
            return
        aside = tree["quarantine"]["quarantined"] + tree["quarantine"]["dead_letters"]
        changes = sum(one["inserts"] + one["updates"] + one["deletes"] for one in tree["volume"])
        for number in (
            f"changes {changes:,} in",
            f"set aside {aside:,} ",
            f"checks passing {tree['timeline']['passing']:,}",
        ):
            assert number.replace(" ", "") in web.replace(" ", "")
        assert f"{changes:,} changes" in text
        assert f"{aside:,} set aside" in text

    def test_the_findings_and_their_commands_stand_in_every_form(self):
        report = made(shop.busy())
        tree, text, web = json.loads(document(report)), markdown(report), "".join(read(page(report)).text)
        for one, told in zip(report.verdict.findings.items, tree["verdict"]["findings"]["items"], strict=True):
            assert told["commands"] == list(one.commands)
            assert one.title in web
            assert escaped(one.title) in text
            for command in one.commands:
                assert command in web
                assert f"`{command}`" in text

    def test_a_command_of_a_hostile_name_does_nothing_else(self):
        rows = shop.quiet() | {"held": [shop.row(120, "x; rm -rf ~", reason="r", status="open")]}
        commands = made(rows).verdict.findings.items[0].commands
        assert commands[-1] == "ticdc-warehouse tables release 'shop.x; rm -rf ~'"


class TestBounds:
    def test_ten_thousand_tables_make_a_page_that_opens(self):
        long = "x" * 100_000
        tables = [f"t{number:05}" for number in range(10_000)]
        said, many = json.dumps({"because": long}), list(enumerate(tables))
        rows = {
            "batches": [shop.batch(number) for number in range(1, 4)],
            "quality_results": [
                shop.result(n, t, "r", success=at % 3 > 0, unexpected=1, sample=None if at % 500 else said)
                for n in range(1, 4) for at, t in many
            ],
            "quarantine": [shop.aside(2, t, [f"r{at % 7}"], at, message=long[:5000]) for at, t in many],
            "dead_letters": [shop.aside(2, t, None, at, code=f"C{at}") for at, t in many],
            "held": [shop.row(2, t, reason=long, status="open") for t in tables],
            "tables": [shop.row(2, t, warehouse_name=t, state="held", held_reason=long) for t in tables],
            "ddl_history": [
                shop.row(2, t, commit_ts=2**62, ddl_type="x", sql=long, action="", status="") for t in tables
            ],
            "schemas": [shop.row(2, t, version=1, columns="[]") for t in tables],
            "cuts": [
                shop.row(2, t, cut_ts=at + 1, cut_time=shop.NOW, level="", reason=long) for at, t in many
            ],
        }  # fmt: skip
        report = made(rows)
        assert report.timeline.checks.total == report.tables.total == report.quarantine.keys.total == 10_000
        assert all(len(form(report)) < 500_000 for form in FORMS)
        assert "And 9,940 more checks, not shown." in page(report)
        assert "And 9,940 more checks." in markdown(report)

    def test_many_batches_share_columns(self):
        times = dict.fromkeys(range(1000, 1144), shop.NOW)
        shown = columns(times)
        assert (len(shown), shown[0].first, shown[-1].last) == (48, 1000, 1143)
        assert sum(column.batches for column in shown) == 144
        assert columns({}) == ()

    def test_gaps_between_batches_cost_nothing(self):
        rows = {
            "batches": [shop.batch(1), shop.batch(2)],
            "quality_results": [shop.result(3, "t", "r", batch_id=10**15)],
        }
        assert made(rows).looked_at == 3


class TestWording:
    @pytest.mark.parametrize(
        ("seconds", "said"),
        [
            (-3, "0.0 s"),
            (0.42, "0.4 s"),
            (59, "59 s"),
            (119, "119 s"),
            (120, "2 min"),
            (86_400, "24 h"),
            (10**6, "11 d"),
        ],
    )
    def test_durations_have_two_digits_or_so(self, seconds, said):
        assert duration(seconds) == said

    def test_lists_are_cut(self):
        assert [enumerated(["a", "b", "c", "d"][:n]) for n in range(5)] == [
            "", "a", "a and b", "a, b and c", "a, b, c and 1 more",
        ]  # fmt: skip

    def test_long_and_unprintable_text_is_shortened_and_shown(self):
        assert clean("a\x00\u202e") == r"a\x00\u202e"
        assert clean("x" * 50, 10) == "x" * 9 + "…"
        assert len(clean("\x00" * 50, 10)) == 10

    @pytest.mark.parametrize("ts", [None, 0, -1, 2**70, "x"])
    def test_what_is_no_timestamp_has_no_time(self, ts):
        assert committed(ts) is None

    def test_the_axis_ends_at_a_round_number(self):
        assert Chart.of(made(shop.quiet()).volume).top == 600
