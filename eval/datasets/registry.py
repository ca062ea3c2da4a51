"""The data sets that benchmarks know: what they are called, whose they are, where they come from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from eval.datasets import coqa, msc, normalised, topiocqa
from eval.datasets.source import Conversation
from eval.errors import DataError, FormatError
from eval.records import file_digest

Loader = Callable[[Path], list[Conversation]]


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file to fetch; without a digest the user brings one or says that the first fetch is to be trusted."""

    url: str
    sha256: str | None = None

    @property
    def name(self) -> str:
        """Name of the file on disk."""
        return self.url.rsplit("/", 1)[-1]

    @property
    def host(self) -> str:
        """Who sends it."""
        return self.url.split("/")[2]


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set.

    Attributes:
        name: as used on the command line; parts of it are ``name_part``.
        title: as printed in reports.
        licence: of the texts, as their publisher states it.
        official: loader of the publisher's own files, if they are read; it takes one of them.
        files: where the publisher has them.
        patterns: which files of a folder belong to it; all of them are pooled.
        kind: ``qa`` or ``chit-chat``, where a finding of the paper speaks of it.
        scores_answers: whether the assistant's texts are reference answers that an answer can be scored against.
    """

    name: str
    title: str
    licence: str
    official: Loader | None = None
    files: tuple[RemoteFile, ...] = ()
    patterns: tuple[str, ...] = ("*.json", "*.jsonl", "*.jsonl.gz")
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
                # Digests of MSC and CoQA are those that ParlAI's build scripts check.
                "e640e37cf4317cd09fc02a4cd57ef130a185f23635f4003b0cee341ffcb45e60",
            ),
        ),
        patterns=("**/session_*/*.txt",),
        kind="chit-chat",
    ),
    DataSet(
        "coqa",
        "CoQA",
        "mixed by source of the passages",
        coqa.load,
        (
            RemoteFile(
                f"{_STANFORD}/coqa-train-v1.0.json", "b0fdb2bc1bd38dd3ca2ce5fa2ac3e02c6288ac914f241ac409a655ffb6619fa6"
            ),
            RemoteFile(
                f"{_STANFORD}/coqa-dev-v1.0.json", "dfa367a9733ce53222918d0231d9b3bedc2b8ee831a2845f62dfc70701f2540a"
            ),
        ),
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
    """Load a data set from a file, or all its files in a folder.

    Raises:
        DataError: there is nothing at ``path``, or nothing in it.
        FormatError: it is not the format, or not the data set, that it should be.
    """
    if not path.exists():
        raise DataError(f"{path}: no such file or folder; `guard-eval data list` says where {name} comes from")
    known = dataset(name)
    files = _files(known, path)
    conversations = [one for file in files for one in _conversations(known, file, pooled=path.is_dir())]
    if not conversations:
        raise DataError(f"{path}: no conversation in it")
    return Source(known, path, _digest(path, files), tuple(conversations))


def _files(known: DataSet, path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    files = sorted(file for pattern in known.patterns for file in path.glob(pattern))
    if not files:
        raise FormatError(f"{path}: no {' or '.join(known.patterns)} in this folder")
    return files


def _conversations(known: DataSet, file: Path, *, pooled: bool) -> list[Conversation]:
    """Those of one file; splits count their conversations alike, so pooled ones are told apart by the file's name."""
    official = known.official if _is_official(file) else None
    loaded = official(file) if official else normalised.load(file, known.name)
    return [replace(one, id=f"{file.stem}:{one.id}") for one in loaded] if pooled else loaded


def _digest(path: Path, files: Sequence[Path]) -> str:
    """SHA-256 of a file; of names and digests of the files that were read for a folder."""
    if path.is_file():
        return file_digest(path)
    listing = "".join(f"{file.relative_to(path)} {file_digest(file)}\n" for file in files)
    return hashlib.sha256(listing.encode()).hexdigest()


def _is_official(path: Path) -> bool:
    """Normalised files name a ``dataset`` or have ``turns`` in their first line; official ones do not."""
    with path.open("rb") as stream:
        start = stream.read(2)
    if start == b"\x1f\x8b":
        return False
    with path.open(encoding="utf-8", errors="replace") as text:  # the loaders say where it is not UTF-8
        return '"turns"' not in text.readline()
