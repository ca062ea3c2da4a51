"""A tiny BERT encoder and a tiny data folder, made on the spot."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random

import torch
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel

from models.training.loop import Plan
from models.training.pipeline import Options

FIRST = Plan(steps=12, batch=6, chunk=3, check_every=5, rate=1e-3)
SECOND = Plan(steps=4, batch=6, chunk=2, check_every=2, rate=1e-3)

NOUNS = ("cat", "boat", "rice", "moon", "tax", "drum", "code", "tree", "wine", "dog", "road", "film", "shoe", "bank")
CHATS = """\
=== follow-up
U: how old is the moon
A: about 4.5 billion years
R: and the sun
P: write a short poem about rice for my mother
A: Rice, so white and warm, it feeds us all.
R: longer
B[0,1]: is the moon older than the earth
=== follow-up held-back
U: which film won in 1990
A: a film about a car
R: who drove the car
P: fix the tax form for me please
A: here it is
R: why is it so high
S: what is a tax credit
=== follow-up held-back
U: name three trees
A: oak, ash, elm
R: which one grows fast
P: how do i tune a drum at home
A: turn the lugs
R: how far
P: what is a good wine for fish
A: a white one
"""


def encoder(folder: Path, tokenizer: Tokenizer) -> Path:
    """A BERT of two layers with random weights."""
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=160,
        initializer_range=0.3,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        BertModel(config).save_pretrained(folder)
    return folder


def data(folder: Path) -> Path:
    """Questions, chit-chat and tasks of made-up words, and one file that may not be trained on."""
    folder.mkdir()
    rng = Random(0)
    _write(folder, "cast22", [_dialogue(rng, f"cast-{n}", 4) for n in range(12)])
    _write(folder, "byu_chitchat", [_dialogue(rng, f"byu-{n}", 5) for n in range(40)])
    _write(folder, "mt_bench", [_dialogue(rng, f"mtb-{n}", 2, answers=False) for n in range(12)])
    _write(folder, "topiocqa_train192", [_dialogue(rng, f"secret-{n}", 5) for n in range(8)])
    return folder


def chats(folder: Path) -> Path:
    """A few labelled chats, two of them held back."""
    folder.mkdir()
    (folder / "follow-up.txt").write_text(CHATS)
    return folder


def options(folder: Path, tokenizer: Tokenizer) -> Options:
    """A run that takes seconds."""
    return Options(
        data=data(folder / "data"),
        out=folder / "gate",
        chats=chats(folder / "chats"),
        base=str(encoder(folder / "base", tokenizer)),
        first=FIRST,
        second=SECOND,
        sessions=6,
        threads=1,
    )


def _dialogue(rng: Random, identity: str, user_turns: int, *, answers: bool = True) -> dict[str, object]:
    turns: list[dict[str, str]] = []
    for _ in range(user_turns):
        turns.append({"role": "user", "text": f"tell me more on the {rng.choice(NOUNS)} and the {rng.choice(NOUNS)}"})
        if answers:
            turns.append({"role": "assistant", "text": f"the {rng.choice(NOUNS)} is near the {rng.choice(NOUNS)}"})
    return {"id": identity, "turns": turns}


def _write(folder: Path, name: str, rows: list[dict[str, object]]) -> None:
    with gzip.open(folder / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
