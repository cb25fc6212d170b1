"""Every showing of personal data is an event of its own, and they are counted."""

from eventstore.aggregates.disclosure import DISCLOSURE, PersonalDataShown, ShowPersonalData, identity_of, stream_of
from eventstore.clock import now


def test_every_showing_is_told_and_counted() -> None:
    shown = PersonalDataShown(user="u", what=("payload",), reason="r")
    state = DISCLOSURE.initial
    for number in (1, 2, 3):
        assert DISCLOSURE.decide(ShowPersonalData(user="u", what=("payload",), reason="r"), state, now()) == shown
        state = DISCLOSURE.evolve(state, shown)
        assert state.number == number


def test_a_stream_names_its_account_which_may_have_a_slash() -> None:
    assert stream_of("NW", "A/1/b") == "disclosure/NW/A/1/b"
    assert identity_of("disclosure/NW/A/1/b") == ("NW", "A/1/b")
