"""The draw of a sample depends on the checkpoint's root, the seed and the positions, and on nothing else. Pure."""

import hashlib
import tracemalloc
from pathlib import Path
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from eventstore.proof.sample_verifier import POPULATION, draw, read_population, shares
from eventstore.proof.verifier import Invalid

ROOTS = st.binary(min_size=32, max_size=32)
SEEDS = st.text(max_size=20)
POSITIONS = st.sets(st.integers(1, 2**63 - 1), min_size=30, max_size=60)
STRATA = st.dictionaries(st.text(max_size=5), st.integers(1, 10**6), max_size=8)


def test_the_rule_is_as_documented() -> None:
    root, seed, positions = bytes(range(32)), "Glückszahl 7", [3, 9, 27, 81, 243]
    hashes = {
        p: hashlib.sha256(b"importledger sample\n" + root + "Glückszahl 7".encode() + p.to_bytes(8, "big")).digest()
        for p in positions
    }
    expected = sorted(positions, key=lambda position: hashes[position])
    assert draw(root, seed, {"": positions}, 3) == [(position, "") for position in expected[:3]]


@given(ROOTS, SEEDS, POSITIONS, st.integers(2, 70), st.randoms(use_true_random=False))
def test_the_draw_does_not_depend_on_the_order_of_the_accounts(
    root: bytes, seed: str, positions: set[int], size: int, random: Random
) -> None:
    strata = {name: sorted(p for p in positions if p % 2 == n) for n, name in enumerate("ab")}
    assume(all(strata.values()))
    shuffled = {name: random.sample(of_stratum, len(of_stratum)) for name, of_stratum in reversed(strata.items())}
    drawn = draw(root, seed, strata, size)
    assert draw(root, seed, shuffled, size) == drawn
    assert len(drawn) == min(size, len(positions))
    assert len(set(drawn)) == len(drawn)
    assert all(position in strata[stratum] for position, stratum in drawn)


@pytest.mark.promise("sample-draw-by-rule")
@given(ROOTS, SEEDS, POSITIONS)
def test_another_root_or_seed_gives_another_order(root: bytes, seed: str, positions: set[int]) -> None:
    population, number = {"": sorted(positions)}, len(positions)
    drawn = draw(root, seed, population, number)
    assert [p for p, _ in drawn] != sorted(positions)
    assert draw(root, seed + "x", population, number) != drawn
    for bit in (0, 255):
        other = (int.from_bytes(root, "big") ^ (1 << bit)).to_bytes(32, "big")
        assert draw(other, seed, population, number) != drawn


@given(ROOTS, SEEDS, POSITIONS, st.integers(1, 29))
def test_a_larger_sample_contains_the_smaller_one(root: bytes, seed: str, positions: set[int], size: int) -> None:
    population = {"": sorted(positions)}
    assert draw(root, seed, population, size + 1)[:size] == draw(root, seed, population, size)


@given(STRATA, st.integers(1, 500))
def test_shares_are_proportional_and_add_up_to_the_size(numbers: dict[str, int], size: int) -> None:
    total, least = sum(numbers.values()), len(numbers)
    assume(size >= least)
    drawn = shares(numbers, size)
    assert sum(drawn.values()) == min(size, total)
    assert drawn.keys() == numbers.keys()
    further, spare = min(size, total) - least, total - least
    for name, number in numbers.items():
        assert 1 <= drawn[name] <= number
        assert abs((drawn[name] - 1) * spare - further * (number - 1)) < max(spare, 1), "less than one from its part"
    assert shares(dict(reversed(numbers.items())), size) == drawn


@pytest.mark.parametrize(("numbers", "size"), [({"a": 5, "b": 5}, 1), ({"a": 5, "b": 0}, 3)])
def test_a_stratum_without_an_account_in_the_sample_is_refused(numbers: dict[str, int], size: int) -> None:
    with pytest.raises(Invalid):
        shares(numbers, size)
    with pytest.raises(Invalid):
        draw(bytes(32), "", {name: list(range(1, number + 1)) for name, number in numbers.items()}, size)


def test_nothing_is_drawn_from_nothing() -> None:
    assert draw(bytes(32), "", {}, 60) == []


def test_a_population_is_never_held_as_text(folder: Path) -> None:
    number = 150_000
    content = b"".join(b"%d;%s\n" % (position, b"s" * 20) for position in range(1, number + 1))
    (folder / POPULATION).write_bytes(content)
    statement = {"population": number, "files": {POPULATION: hashlib.sha256(content).hexdigest()}}
    tracemalloc.start()
    population = read_population(folder, statement, number)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert list(population["s" * 20]) == list(range(1, number + 1))
    assert most < len(content) * 0.8
