import pytest

from guard.signed import family_of, signers, without_foreign

THINKING = {"type": "thinking", "thinking": "hm", "signature": "EqQBCkYIBxgCKkDsigned"}
TEXT = {"type": "text", "text": "Paris."}
GEMINI_CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "f", "arguments": "{}"},
    "extra_content": {"google": {"thought_signature": "CvcBAb4+9v"}},
}

SIGNED: list[tuple[str, dict[str, object]]] = [
    ("anthropic", {"content": [THINKING, TEXT]}),
    ("anthropic", {"content": [{"type": "redacted_thinking", "data": "Eqy"}, TEXT]}),
    ("anthropic", {"content": "Paris.", "thinking_blocks": [THINKING]}),
    ("anthropic", {"content": "a", "reasoning_details": [
        {"type": "reasoning.text", "text": "hm", "signature": "Eq", "format": "anthropic-claude-v1"}]}),
    ("openai", {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAABo"}),
    ("openai", {"content": [{"type": "thinking", "thinking": "hm", "signature": "gAAAAABo"}, TEXT]}),
    ("openai", {"content": "a", "reasoning_details": [{"type": "reasoning.encrypted", "data": "gAAAAABo"}]}),
    ("google", {"content": None, "tool_calls": [GEMINI_CALL]}),
    ("google", {"parts": [], "thoughtSignature": "CvcB"}),
    ("google", {"content": [{"type": "text", "text": "a", "thought_signature": "CvcB"}]}),
    ("google", {"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"},
                                "provider_specific_fields": {"thought_signature": "CvcB"}}]}),
    ("xai", {"content": "a", "reasoning_details": [
        {"type": "reasoning.encrypted", "data": "zz", "format": "xai-responses-v1"}]}),
]  # fmt: skip


@pytest.mark.parametrize(("family", "message"), SIGNED)
def test_signer_is_recognised(family: str, message: dict[str, object]) -> None:
    """A signed part tells which provider family made it, in every spelling that gateways use."""
    assert signers(message) == {family}


@pytest.mark.parametrize(("family", "message"), SIGNED)
def test_own_signatures_stay(family: str, message: dict[str, object]) -> None:
    """The family that signed a part gets the message as it is."""
    assert without_foreign(message, family) is message


@pytest.mark.parametrize("message", [message for _, message in SIGNED])
@pytest.mark.parametrize("reader", [None, "elsewhere"])
def test_foreign_signatures_go(message: dict[str, object], reader: str | None) -> None:
    """Another family gets the message without any signed part, and the original is left alone."""
    before = repr(message)
    assert not signers(without_foreign(message, reader))
    assert repr(message) == before


def test_text_and_calls_survive() -> None:
    """Only what was signed goes: text, calls and arguments stay, in order."""
    stripped = without_foreign({"role": "assistant", "content": [THINKING, TEXT], "tool_calls": [GEMINI_CALL]}, None)
    assert stripped["content"] == [TEXT]
    calls = stripped["tool_calls"]
    assert calls == [{key: GEMINI_CALL[key] for key in ("id", "type", "function")}]


def test_mixed_signers_keep_their_own() -> None:
    """A history by several families loses what the reader cannot read and keeps what it signed."""
    message = {"content": [THINKING, TEXT], "tool_calls": [GEMINI_CALL]}
    assert signers(without_foreign(message, "anthropic")) == {"anthropic"}


def test_nothing_left_is_valid_content() -> None:
    """A message that was nothing but signed thinking becomes null beside tool calls, else the empty text."""
    assert without_foreign({"content": [THINKING]}, None)["content"] == ""
    assert without_foreign({"content": [THINKING], "tool_calls": [{"id": "c"}]}, None)["content"] is None


def test_plain_reasoning_is_not_signed() -> None:
    """Reasoning in the open is no provider's secret and stays."""
    message = {"content": "a", "reasoning_content": "hm", "tool_calls": [{"id": "c", "function": {"name": "f"}}]}
    assert signers(message) == frozenset()
    assert without_foreign(message, None) is message


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("claude-sonnet-4-5", "anthropic"), ("anthropic/claude-3-haiku", "anthropic"), ("gpt-4o-mini", "openai"),
        ("openai/gpt-5", "openai"), ("o3", "openai"), ("o4-mini", "openai"), ("openai/gpt-oss-120b", None),
        ("gemini-2.5-flash", "google"), ("grok-4", "xai"), ("smollm2-135m", None), ("llama-3.3-70b", None),
    ],
)  # fmt: skip
def test_family_of_model_names(model: str, family: str | None) -> None:
    """Names of the big providers' models tell their family; open weights have none."""
    assert family_of(model) == family
