"""Values that are made once and kept, as long as they weigh no more than so much together."""

from pipeline.runtime.driver.kept import Kept


def test_a_value_is_made_once_until_it_is_dropped():
    kept, made = Kept(3), []
    for _ in range(2):
        assert kept.get("a", lambda key: made.append(key) or key.upper()) == "A"
    kept.drop("a")
    kept.drop("a")
    assert kept.get("a", lambda key: made.append(key) or key.upper()) == "A"
    assert made == ["a", "a"]


def test_none_is_a_value():
    kept, made = Kept(3), []
    for _ in range(2):
        assert kept.get("a", made.append) is None
    assert made == ["a"]


def test_of_one_too_many_in_rounds_most_are_still_there():
    kept, made = Kept(100), []
    for _ in range(5):
        for number in range(101):
            kept.get(number, lambda key: made.append(key) or key)
    assert len(kept._values) == 100
    assert len(made) < 2 * 101


def test_heavy_ones_push_out_as_many_as_they_need_room_for():
    kept = Kept(10)
    for number in range(10):
        kept.get(number, str)
    kept.get("heavy", str, 8)
    assert "heavy" in kept._values
    assert len(kept._values) == 3
    kept.get("too heavy", str, 80)
    assert list(kept._values) == ["too heavy"]
