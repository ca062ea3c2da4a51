from __future__ import annotations

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[unused1]", "[unused2]")


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    """A WordPiece tokenizer over single letters: every letter is a token, words are known from spaces."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789…[].,?!"
    pieces = [*SPECIALS, *letters, *(f"##{letter}" for letter in letters)]
    tokenizer = Tokenizer(WordPiece({piece: index for index, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.add_special_tokens(list(SPECIALS))
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return tokenizer
