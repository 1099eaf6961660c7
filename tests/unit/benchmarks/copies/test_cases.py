from benchmarks.copies.cases import ACCURACY, CASES, EVERYDAY


def test_each_part_has_a_name_of_its_own() -> None:
    names = [EVERYDAY, ACCURACY, *(case.topic for case in CASES)]
    assert len(set(names)) == len(names)
