from ctrlgen.recent import Numbered, Recent
from tests.threads import interleaved


def test_the_oldest_goes_first():
    kept = Recent(3)
    for number in range(10):
        kept[number] = str(number)
    assert dict(kept) == {7: "7", 8: "8", 9: "9"}


def test_setting_again_replaces_the_value():
    kept = Recent(2)
    kept["a"], kept["b"] = 1, 2
    kept["a"] = 3
    assert dict(kept) == {"a": 3, "b": 2}


def test_threads_may_evict_at_once():
    kept = Recent(4)

    def work(seed):
        for number in range(3_000):
            kept[seed * 10_000 + number] = number
            kept.get(seed * 10_000 + number - 2)

    interleaved(work, 6)
    assert len(kept) <= 4


def test_each_place_has_one_number_that_leads_back_to_it():
    places = Numbered(())
    assert places.number(()) == 0
    assert [places.number((n % 7,)) for n in range(21)] == [1 + n % 7 for n in range(21)]
    assert [places[n] for n in range(len(places))] == [(), *((n,) for n in range(7))]


def test_threads_agree_on_the_numbers():
    places = Numbered(-1)

    def work(seed):
        found = [places.number((seed * 31 + n) % 997) for n in range(5_000)]
        return all(places[number] == (seed * 31 + n) % 997 for n, number in enumerate(found))

    assert all(interleaved(work, 6))
    assert len(places) == 998
