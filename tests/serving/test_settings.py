"""Where settings come from, and which are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from guard.errors import SettingsError
from guard.policy import Mode
from serving.settings import load, serves

BACKEND = {"backend": "http://backend/v1"}
ROOT = Path(__file__).parent.parent.parent


def test_a_backend_is_all_that_is_needed() -> None:
    """One flag makes a working configuration on the documented address."""
    settings = load(BACKEND, {})
    assert (settings.host, settings.port, settings.mode) == ("127.0.0.1", 8080, Mode.ENFORCE)
    assert [backend.url for backend in settings.backends] == ["http://backend/v1"]


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    """Each source overrides the one below it, key by key."""
    file = tmp_path / "guard.yaml"
    file.write_text("port: 1\nhost: file\nmode: 'off'\npolicy: {pin: 1, recent: 9}\n")
    environment = {"GUARD_PORT": "2", "GUARD_HOST": "environment", "GUARD_POLICY__PIN": "2"}
    settings = load(BACKEND | {"config": str(file), "port": "3"}, environment)
    assert (settings.port, settings.host, settings.mode) == (3, "environment", Mode.OFF)
    assert (settings.policy.pin, settings.policy.recent, settings.policy.resume_depth) == (2, 9, 4)


def test_the_commented_file_holds_the_defaults() -> None:
    """guard.yaml documents every option with the value it has when nobody sets it."""
    from_file = load(BACKEND | {"config": str(ROOT / "guard.yaml")}, {})
    assert from_file == load(BACKEND, {})
    text = (ROOT / "guard.yaml").read_text()
    for section, value in load(BACKEND, {}).model_dump().items():
        keys = [section, *value] if isinstance(value, dict) else [section]
        assert [key for key in keys if f"{key}:" not in text] == []


@pytest.mark.parametrize(
    ("flags", "environment", "named"),
    [
        ({"mode": "enforced"}, {}, ["mode", "'enforce', 'shadow' or 'off'"]),
        ({"port": "http"}, {}, ["port", "integer"]),
        ({"port": "70000"}, {}, ["port", "65535"]),
        ({"policy.threshold": "2"}, {}, ["policy.threshold", "less than or equal to 1"]),
        ({"policy.treshold": "0.5"}, {}, ["policy.treshold", "did you mean threshold", "resume_depth"]),
        ({}, {"GUARD_MOED": "off"}, ["moed", "did you mean mode"]),
        ({}, {"GUARD_GATE__RUNTIME": "tensorflow"}, ["gate.runtime", "'onnx'", "'vllm'"]),
        ({"backend": "localhost:11434"}, {}, ["backends.0.url", "http://"]),
        (
            {"backends": '[{"url": "http://a", "timeouts": {"reed_s": 1}}]', "backend": None},
            {},
            ["backends.0.timeouts.reed_s", "did you mean read_s", "allowed here: connect_s, read_s"],
        ),
        ({"config": "/nowhere/guard.yaml"}, {}, ["config", "/nowhere/guard.yaml"]),
        ({"backend": "http://a:99999/v1"}, {}, ["backends.0.url", "1 to 65535"]),
        ({"backend": "http://me:sk-secret@a/v1"}, {}, ["backends.0.url", "api_key"]),
        ({"backend": "http://a/v1?key=sk-secret"}, {}, ["backends.0.url", "'?'"]),
        ({"backend": "http://a/v1#x"}, {}, ["backends.0.url", "'#'"]),
        ({"backend_key": "sk-\nsecret"}, {}, ["backends.0.api_key", "control characters"]),
        ({"timeouts.read_s": "inf"}, {}, ["timeouts.read_s", "finite"]),
        ({"backend": None, "backends": '[{"url": 5}]'}, {}, ["backends.0.url", "http://"]),
        ({"backend": None, "backends": '[{"url": "http://a", "api_key_env": ["x"]}]'}, {}, ["api_key_env", "name"]),
        (
            {"backend": None, "backends": '[{"url": "http://a", "timeouts": {"connect_s": "inf"}}]'},
            {},
            ["backends.0.timeouts.connect_s", "finite"],
        ),
        ({"backends": '[{"url": "http://a"}]'}, {}, ["backend, backends", "one of them"]),
        ({}, {"GUARD_BACKEND_KEY": "sk-secret"}, ["backend_key", "GUARD_BACKEND", "same place"]),
    ],
)
def test_wrong_settings_are_refused_by_name(
    flags: dict[str, str], environment: dict[str, str], named: list[str]
) -> None:
    """The message names the key and what is allowed."""
    with pytest.raises(SettingsError) as refused:
        load(BACKEND | flags, environment)
    assert [part for part in named if part not in str(refused.value)] == []
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"host: \xff", "UTF-8"),
        (b"host: 2026-13-45", "quotes"),
        (b"host: " + b"[" * 5000, "nested too deeply"),
        (b"backend: 5", "http://"),
        (b"mode: on", "'off'"),
    ],
)
def test_a_wrong_file_is_refused_with_what_is_wrong(tmp_path: Path, content: bytes, said: str) -> None:
    """Whatever the file holds, it is a message and no traceback."""
    file = tmp_path / "guard.yaml"
    file.write_bytes(content)
    with pytest.raises(SettingsError, match=said):
        load({"config": str(file)}, {} if content.startswith(b"backend") else {"GUARD_BACKEND": "http://backend"})


def test_modes_may_be_written_as_yaml_reads_them(tmp_path: Path) -> None:
    """YAML makes false of an unquoted off."""
    file = tmp_path / "guard.yaml"
    file.write_text("mode: off\nmodes: {'gpt-*': off, '*': enforce}\n")
    settings = load(BACKEND | {"config": str(file)}, {})
    assert (settings.mode, settings.mode_for("gpt-5"), settings.mode_for("x")) == (Mode.OFF, Mode.OFF, Mode.ENFORCE)


def test_white_space_around_a_key_is_no_part_of_it() -> None:
    """Secrets that come from files end with a line break, which no header may hold."""
    settings = load(BACKEND | {"backend_key": "sk-one\r\n", "auth.admin_key": " sk-two\n"}, {})
    keys = (settings.backends[0].api_key, settings.auth.admin_key)
    assert [key.get_secret_value() for key in keys if key] == ["sk-one", "sk-two"]


def test_a_name_may_look_like_a_pattern() -> None:
    """Brackets are part of some models' names."""
    backends = '[{"url": "http://a", "models": ["claude[1m]"]}]'
    settings = load({"backends": backends, "modes": '{"claude[1m]": "off"}'}, {})
    assert (serves(settings.backends[0], "claude[1m]"), settings.mode_for("claude[1m]")) == (True, Mode.OFF)


def test_no_backend_is_refused_with_an_example() -> None:
    """Somebody who starts the proxy without anything learns what to type."""
    with pytest.raises(SettingsError, match="--backend http://"):
        load({}, {})


def test_a_wrong_value_is_not_quoted() -> None:
    """A key that was put into the wrong place does not end up in a terminal's history or a log."""
    with pytest.raises(SettingsError) as refused:
        load(BACKEND, {"GUARD_BACKENDS": '[{"name": "sk-secret key"}]', "GUARD_PORT": "sk-secret"})
    assert "sk-secret" not in str(refused.value)


def test_keys_do_not_show_when_settings_are_printed() -> None:
    """Settings can be logged as they are."""
    settings = load(BACKEND | {"backend_key": "sk-secret"}, {"GUARD_AUTH__CLIENT_KEYS": "sk-one, sk-two"})
    assert "sk-" not in repr(settings)
    assert [key.get_secret_value() for key in settings.auth.client_keys] == ["sk-one", "sk-two"]


def test_a_backend_key_can_stay_in_the_environment(tmp_path: Path) -> None:
    """The file names the variable that holds the key."""
    file = tmp_path / "guard.yaml"
    file.write_text("backends: [{name: cloud, url: 'https://cloud/v1', api_key_env: CLOUD_KEY}]\n")
    settings = load({"config": str(file)}, {"CLOUD_KEY": "sk-cloud"})
    key = settings.backends[0].api_key
    assert key is not None
    assert key.get_secret_value() == "sk-cloud"
    with pytest.raises(SettingsError, match="CLOUD_KEY"):
        load({"config": str(file)}, {})


def test_backends_need_names_of_their_own() -> None:
    """Two backends of one name could not be told apart in metrics."""
    with pytest.raises(SettingsError, match="name of its own"):
        load({"backends": '[{"url": "http://a"}, {"url": "http://b"}]'}, {})


def test_variables_of_a_kubernetes_service_named_guard_are_not_settings() -> None:
    """Kubernetes injects addresses of services under names that look like ours."""
    environment = {"GUARD_PORT": "tcp://10.0.0.1:80", "GUARD_SERVICE_HOST": "10.0.0.1", "GUARD_PORT_80_TCP_ADDR": "1"}
    assert load(BACKEND, environment).port == 8080


def test_the_first_pattern_that_fits_gives_the_mode_of_a_model() -> None:
    """Modes can differ by model."""
    settings = load(BACKEND | {"modes": '{"gpt-5*": "shadow", "gpt-*": "off"}'}, {})
    assert [settings.mode_for(model) for model in ("gpt-5-mini", "gpt-4", "llama")] == ["shadow", "off", "enforce"]
