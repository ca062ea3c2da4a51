"""What a switch matrix is run with: models, and the paths that their requests take.

A file names them, in YAML::

    models:
      - name: small                      # as printed, and as a risk file names it
        base_url: http://localhost:8080/v1
        model: small                     # what the request asks for; default: the name
        system: Answer in plain words.   # optional
        options: {temperature: 0}        # sampling; default: greedy
        api_key_env: SMALL_KEY           # optional
        price: {input: 0.15, output: 0.6}  # optional, per million tokens
    paths:                               # optional: the same matrix by several paths through a proxy
      - name: unguarded
        headers: {x-guard-mode: "off"}
      - name: marked
        headers: {x-guard-mitigate: mark}

The first path is the baseline: its matrix is decomposed, and every prefix is generated on it.
"""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from eval.errors import FormatError


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Price(_Section):
    """Cost of a million tokens, in any currency."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)


class ModelConfig(_Section):
    """One model of the matrix. Two that share server and weights but differ in anything here are different models."""

    name: str = Field(min_length=1)
    base_url: str
    model: str = ""
    system: str | None = None
    options: dict[str, object] = {"temperature": 0}
    api_key_env: str | None = None
    price: Price | None = None

    @property
    def asked(self) -> str:
        """The model name in requests."""
        return self.model or self.name


class PathConfig(_Section):
    """A way to the models: headers that tell a proxy what to do."""

    name: str = Field(min_length=1)
    headers: dict[str, str] = {}


class SwitchConfig(_Section):
    """The whole file."""

    models: tuple[ModelConfig, ...] = Field(min_length=2)
    paths: tuple[PathConfig, ...] = Field((PathConfig(name="direct"),), min_length=1)

    @model_validator(mode="after")
    def _names_differ(self) -> SwitchConfig:
        for kind, names in (("models", [m.name for m in self.models]), ("paths", [p.name for p in self.paths])):
            if len(set(names)) < len(names):
                raise ValueError(f"{kind}: every name must differ")
        return self


def load_config(path: Path) -> SwitchConfig:
    """Read a models file.

    Raises:
        FormatError: it is missing, no YAML, or a key is wrong.
    """
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
        return SwitchConfig.model_validate(tree)
    except OSError as error:
        raise FormatError(f"{path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        raise FormatError(f"{path}: not valid YAML in UTF-8") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise FormatError(f"{path}: {where}: {first['msg']}") from None
