"""The data sets that benchmarks know: what they are called, whose they are, where they come from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from eval.datasets import coqa, msc, normalised, topiocqa
from eval.datasets.source import Conversation
from eval.errors import DataError
from eval.records import file_digest

Loader = Callable[[Path], list[Conversation]]


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file to fetch; without a digest the user must bring one, nothing is trusted unseen."""

    url: str
    sha256: str | None = None

    @property
    def name(self) -> str:
        """Name of the file on disk."""
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set.

    Attributes:
        name: as used on the command line; parts of it are ``name_part``.
        title: as printed in reports.
        licence: of the texts, as their publisher states it.
        official: loader of the publisher's own files, if they are read.
        files: where the publisher has them.
        kind: ``qa`` or ``chit-chat``, where a finding of the paper speaks of it.
        scores_answers: whether the assistant's texts are reference answers that an answer can be scored against.
    """

    name: str
    title: str
    licence: str
    official: Loader | None = None
    files: tuple[RemoteFile, ...] = ()
    kind: str = ""
    scores_answers: bool = False


_HUB = "https://huggingface.co/datasets/McGill-NLP/TopiOCQA/resolve/main/data"
_STANFORD = "https://nlp.stanford.edu/data/coqa"
DATASETS = (
    DataSet(
        "topiocqa",
        "TopiOCQA",
        "CC BY-NC-SA 4.0",
        topiocqa.load,
        (RemoteFile(f"{_HUB}/topiocqa_train.jsonl"), RemoteFile(f"{_HUB}/topiocqa_valid.jsonl")),
        kind="qa",
        scores_answers=True,
    ),
    DataSet(
        "msc",
        "MSC (Multi-Session Chat)",
        "not stated for the texts (ParlAI's code: MIT)",
        msc.load,
        (
            RemoteFile(
                "http://parl.ai/downloads/msc/msc_v0.1.tar.gz",
                # The digest that ParlAI's own build script checks.
                "e640e37cf4317cd09fc02a4cd57ef130a185f23635f4003b0cee341ffcb45e60",
            ),
        ),
        kind="chit-chat",
    ),
    DataSet(
        "coqa",
        "CoQA",
        "mixed by source of the passages",
        coqa.load,
        (RemoteFile(f"{_STANFORD}/coqa-train-v1.0.json"), RemoteFile(f"{_STANFORD}/coqa-dev-v1.0.json")),
        kind="qa",
        scores_answers=True,
    ),
    DataSet("personachat", "PersonaChat", "not stated for the texts", kind="chit-chat"),
    DataSet("mtrag_un", "MTRAG-UN", "Apache-2.0", kind="qa"),
    DataSet("mt_eval", "MT-Eval", "MIT"),
    DataSet("byu_chitchat", "BYU chit-chat", "MIT", kind="chit-chat"),
    DataSet("kdconv", "KdConv (Chinese)", "Apache-2.0"),
    DataSet("crosswoz", "CrossWOZ (Chinese)", "Apache-2.0"),
)


@dataclass(frozen=True, slots=True)
class Source:
    """A loaded data set, and exactly which file it was."""

    dataset: DataSet
    path: Path
    digest: str
    conversations: tuple[Conversation, ...]

    def facts(self) -> dict[str, object]:
        """What the run card says of it."""
        return {
            "name": self.dataset.name,
            "title": self.dataset.title,
            "licence": self.dataset.licence,
            "kind": self.dataset.kind,
            "file": self.path.name,
            "sha256": self.digest,
            "conversations": len(self.conversations),
        }


def dataset(name: str) -> DataSet:
    """The data set of that name; an unknown name stands for normalised files of the user's own."""
    return next((one for one in DATASETS if one.name == name), DataSet(name, name, "not stated"))


def load_source(name: str, path: Path) -> Source:
    """Load a data set from a file, or from a folder of official files.

    Raises:
        DataError: there is nothing at ``path``, or nothing in it.
        FormatError: it is not the format, or not the data set, that it should be.
    """
    if not path.exists():
        raise DataError(f"{path}: no such file or folder; `guard-eval data list` says where {name} comes from")
    known = dataset(name)
    conversations = known.official(path) if known.official and _is_official(path) else normalised.load(path, name)
    if not conversations:
        raise DataError(f"{path}: no conversation in it")
    return Source(known, path, source_digest(path), tuple(conversations))


def source_digest(path: Path) -> str:
    """SHA-256 of a file; of names and digests of all files for a folder."""
    if path.is_file():
        return file_digest(path)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    listing = "".join(f"{file.relative_to(path)} {file_digest(file)}\n" for file in files)
    return hashlib.sha256(listing.encode()).hexdigest()


def _is_official(path: Path) -> bool:
    """Normalised files name a ``dataset`` or have ``turns`` in their first line; official ones do not."""
    if path.is_dir():
        return True
    with path.open("rb") as stream:
        start = stream.read(2)
    if start == b"\x1f\x8b":
        return False
    with path.open(encoding="utf-8") as text:
        return '"turns"' not in text.readline()
