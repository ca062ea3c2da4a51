"""Random chats: any order of roles, tool traffic with late, missing and reused ids, blank texts."""

from __future__ import annotations

from hypothesis import strategies as st

from guard.conversation import Conversation, Message
from guard.policy import Policy

TEXTS = st.sampled_from(
    [
        "",
        " ",
        "red apples",
        "green apples",
        "red cars",
        "old cars",
        "blue sea",
        "deep sea",
        "hello",
        "from now on be brief",
    ]
)
CALL_IDS = st.sampled_from(["c1", "c2", "c3"])


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """One message of any role."""
    role = draw(st.sampled_from(["user", "user", "user", "assistant", "assistant", "tool", "system", "developer"]))
    calls = tuple(draw(st.lists(CALL_IDS, max_size=2, unique=True))) if role == "assistant" else ()
    answers = draw(CALL_IDS) if role == "tool" else None
    return Message(role, draw(TEXTS), calls, answers)


conversations = st.lists(messages(), max_size=24).map(Conversation.of)

policies = st.builds(
    Policy,
    resume=st.booleans(),
    standing=st.booleans(),
    pin=st.integers(0, 3),
    budget=st.one_of(st.none(), st.integers(0, 60)),
    recent=st.integers(0, 3),
)
