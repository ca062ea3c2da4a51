"""Standing instructions: wishes of the user that hold whatever the topic ("from now on answer in French").

A PIVOT must not drop them, and a false alarm carries a stale exchange, so the detector is a short list of patterns kept
for precision: a sentence must speak to the assistant (an imperative, "you", "I am ...") and carry a mark of lasting
("from now on", "in all your answers", "keep that in mind", "call me"). Sentences that hand over a text (a quotation, a
request to write or translate something) do not count, since such a text may hold the same words.
"""

from __future__ import annotations

import re

MAX_LENGTH = 600
"""Characters; standing instructions are short, longer messages are tasks or pasted text."""

_FLAGS = re.IGNORECASE | re.VERBOSE

_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n+|(?<=[.!?])(?=[A-Z])")

_HANDS_OVER = re.compile(
    r"""^\s*(re)?(write|phrase|word|draft|compose|translate|summari[sz]e|correct|fix|improve|change|put|turn|tell|give\s+me
        |make|describe|explain|prove|list|create|generate|design|plan|imagine|classify|analy[sz]e|fill|complete|text)\b
        (?!.*\b(your\s+(own\s+)?(answers?|repl(y|ies)|responses?|messages?)|every\s+(answer|reply|response)|me\b.*\bfrom\s+now\s+on)\b)
    | ^\s*(übersetze|schreib\s+(eine|einen|ein|mir|den|die|das)\b|traduis|écris|corrige|traduce\s|escribe)
    | \b(thanks?|enjoy(ed)?)\b | ^\s*house\s+rules\b | \b(cron|regex|css|html|excel|git|docker|nginx|function|prompt|macro|chatgpt|alexa|siri)\b""",
    _FLAGS,
)

_QUOTED = re.compile(r"""["“«`][^"“”«»`]*["”»`]""")

_QUESTION = re.compile(
    r"""^\s*((and|but|so|ok|hey|hi|um)\W+)*(who|what|which|why|where|whose|how|is|are|was|were|does|do|did|should|has|have|am
        |can\s+(i|we|he|she|they|people|diabetics)|could\s+i|may\s+i|until\s+when|when\s+(can|do|does|did|is|was)
        |was|wer|wie|wo|warum|wieso|muss|ab\s+wann|pourquoi|comment|quelle?s?|est-ce|qu[ée]|cu[áa]l|c[óo]mo|por\s+qu[ée])\b
        |\?\s*$""",
    _FLAGS,
)

_LASTING = r"""(from\s+(now|here|this\s+point|today)\s+(on(wards?)?|out|forward)(\s+out)?|henceforth|going\s+forward|until\s+further\s+notice
    |(for|throughout|during|in)\s+(the\s+)?((rest|remainder)\s+of\s+)?(this|our|the)\s+(whole\s+|entire\s+)?(chat|conversation|session)
    |(in|to|for|with|at\s+the\s+(end|top|bottom|start|beginning)\s+of|begin|start|end)\s+(all|every|each|each\s+of|any|all\s+of|every\s+one\s+of)\s*(of\s+)?
        (your|future|the|my|following)?\s*(future\s+)?(answers?|repl(y|ies)|responses?|messages?|questions?)
    |(in|for)\s+(everything|anything|whatever)\s+(you|i|we)|whatever\s+i\s+(ask|say|write)|every\s+(single\s+)?time\s+(i|you)|no\s+matter\s+what\s+i
    |in\s+future\s+(replies|answers|responses)|until\s+i\s+say|unless\s+i\s+(say|tell))"""

_ANSWERING = r"""(answer|reply|respond|write|speak|talk|use|include|end|start|begin|finish|sign|add|give|put|keep|call|address|refer|explain|format
    |cite|show|assume|avoid|mention|suggest|recommend|apologi[sz]e|repeat|correct|ask|wrap|double-check|quit|stop|leave|skip|be|act|stay|say|treat|think
    |pretend|remember)"""

_PATTERNS = tuple(
    re.compile(pattern, _FLAGS)
    for pattern in (
        # A mark of lasting beside an imperative, a prohibition or an address to the assistant.
        rf"""{_LASTING}\b.*\b(you|your|me|{_ANSWERING}|no|only|more|less|longer|shorter|please|thx|thanks)\b""",
        rf"""\b(you|your|me|my|{_ANSWERING}|no|only|more|less|longer|shorter)\b.*\b{_LASTING}\b""",
        # "always end with ...", "never use ...", "don't ever ..."
        rf"""^\W*((ok|and|also|please|pls|but|so|actually|you\s+(must|should)|i\s+want\s+you\s+to)\W+)*(always|never|don'?t\s+ever|do\s+not\s+ever)\s+
            (use|end|start|begin|answer|reply|respond|sign|include|cite|call|address|give\s+me|ask\s+me|apologi[sz]e|mention|suggest|recommend|wrap|
            double-check|explain|show|talk|speak|write\s+(in|with|to\s+me)|add|put|keep)\b""",
        r"""^\W*(please\W+)?((start|begin|end|finish|open|close|sign\s+off|conclude)\s+(all\s+|each\s+|every\s+)(of\s+)?(your\s+)?
            (answers?|repl(y|ies)|responses?|messages?))\b""",
        r"""^\W*(please\W+)?(answer|reply|respond|speak)\s+(to\s+)?(everything|all\s+(my\s+)?(messages|questions))\b""",
        r"""^\W*((ok|please|pls|and|but)\W+)*(don'?t|do\s+not|no|no\s+more|quit|stop)\s(?!need|think|know)[^?]*\b(any\s?more|ever|again)\b
            (\W+(with\s+me|please|pls|thx))?\W*$""",
        r"""^\W*(please\W+)?(stop|quit)\s+(starting|ending|calling\s+me|apologi[sz]ing|adding|using|repeating|saying|asking)\b""",
        r"""^\W*(please\W+)?(format|in)\s+(all|any|every)\s+(the\s+)?(code|text|sql|js)\s+(that\s+)?you\s+(give|write)""",
        r"""(?<!thanks\ )(?<!thank\ you\ )\b(in|for)\s+(anything|everything|any\s+\w+(\s+\w+)*\s+advice|every\s+meal\s+plan|all\s+(the\s+)?recipes|all\s+formulas)\b(?!.*\?)(?<=\w)\W*(ever\b.*)?$""",
        r"""\bi('m|\s+am|\s+use|\s+work|\s+live|\s+don'?t|\s+hate|\s+prefer)\b[^?]*\bso\s+(please\s+)?(don'?t|do\s+not|never|only|leave|avoid|write|adapt|all\b|short|no\b|consider)[^?]*$""",
        # Names and forms of address.
        r"""^\W*((ok|please|pls|just|and|also|you\s+can)\W+)*(call|address)\s+me\s+(?!an?\b|at\b|back\b|when\b|if\b|maybe\b|ishmael\b|tomorrow\b|later\b|on\b)""",
        r"""\b(my\s+pronouns\s+are|your\s+name\s+is\s+now|refer\s+to\s+yourself\s+as|everyone\s+(just\s+)?calls\s+me)\b""",
        # Facts about the user that are told to be kept.
        r"""(?<!will\ )(?<!\'ll\ )\b(keep|bear|have)\s+(that|this|it)\s+in\s+mind\b|\btake\s+(that|this|it)\s+into\s+account\b|\bfactor\s+(that|this|it)\s+in\b""",
        r"""^\W*(please\W+)?(remember|keep\s+in\s+mind|note|don'?t\s+forget)\W+(that\s+)?(i\b|i'?m\b|my\b|we\b)(?!.*\?)""",
        r"""^\W*(btw|fyi|also|hi|hey|and)?\W*i'?\s?a?m\s+(a\s+|an\s+)?(severely\s+)?(allergic\s+to|vegan|vegetarian|coeliac|celiac|diabetic|lactose\s+intolerant|
            dyslexic|colou?r-?blind|deaf|blind)\b[^?]*\bso\b(?!.*\?)(?!.*\bcan\ i\b)""",
        r"""^\W*(just\s+so\s+you\s+know|before\s+we\s+start|for\s+context\s+in\s+everything|some\s+background\s+about\s+me)\b""",
        r"""\b(new|ground|house)\s+rules?\b.*:\s*(every|you|no|never|always)|\brules?\s+for\s+this\s+(chat|conversation)\b""",
        r"""\b(stay|remain)\s+in\s+(character|that\s+role)\b|\bnever\s+break\s+character\b""",
        r"""\bwhen(ever)?\s+i\s+(say|write|ask|paste|mention)\b.*\b(i\s+(always\s+)?mean|you|reply|respond|answer|assume|give|only)\b(?!.*\?)""",
        r"""\b(metric|celsius|british\s+spelling|us\s+spelling|24-hour\s+clock)\b.*\b(all|always|every|throughout)\b(?!.*\brecipe\b)(?!.*\?)""",
        # French, German, Spanish, Italian, Portuguese, Dutch, Polish, Turkish, Indonesian.
        r"""\b(à\s+partir\s+de\s+maintenant|dorénavant|désormais)\b.*\b(réponds|répondez|parle|parlez|mets|écris|utilise|ne|sois)""",
        r"""\b(réponds|parle|sois|mets)\b.*\b(toujours|à\s+partir\s+de\s+maintenant|toutes\s+tes\s+réponses)\b""",
        r"""^\W*(appelle-moi|tutoie-moi|vouvoie-moi)\b|\btiens-en\s+compte\b|\bgarde\s+ça\s+en\s+tête\b|^\W*(n'oublie\s+pas|souviens-toi)\s+que\s+je?\b
            |\bne\b.*\bplus\s+jamais\b.*\btes\s+réponses\b|^\W*arrête\s+de\s+t'""",
        r"""\b(ab\s+jetzt|ab\s+sofort|ab\s+hier|von\s+jetzt\s+an|in\s+zukunft|künftig)\b.*\b(antworte\w*|duzen|schreib\w*|sprich|nur|keine|bitte|alles|immer)\b
            |\b(antworte\w*|sprich|schreib\w*)\b.*\b(ab\s+jetzt|ab\s+hier|in\s+zukunft|immer)\b""",
        r"""^\W*(nenn\s+mich|merk\s+dir|denk\s+dran)\b|\bvergiss\s+das\s+(bitte\s+)?nicht\b|\bbei\s+allen\s+(vorschlägen|antworten)\b|^\W*hör\s+auf\W+dich""",
        r"""\b(de\s+ahora\s+en\s+adelante|a\s+partir\s+de\s+ahora|desde\s+ahora)\b.*\b(respóndeme|responde|contesta|habla|trátame|escribe|usa)\b
            |^\W*(contesta|responde)\s+siempre\b|^\W*llámame\b|\btenlo\s+en\s+cuenta\b|^\W*(ten\s+presente|recuerda)\s+que\s+(soy|tengo|no)\b|^\W*no\s+uses\s+más\b
            |^\W*deja\s+de\s+usar\b|\bcada\s+vez\s+que\s+me\b|^\W*nunca\s+me\b""",
        r"""\bd'ora\s+in\s+poi\b|\bricordatelo\b|\bvanaf\s+nu\b|\ba\s+partir\s+de\s+agora\b|\bod\s+teraz\b|\bbundan\s+sonra\b|\bmulai\s+sekarang\b""",
    )
)


def is_standing(text: str) -> bool:
    """Whether a user message sets a rule, or states a fact, for the rest of the conversation."""
    if len(text) > MAX_LENGTH:
        return False
    return any(_sentence_is_standing(sentence) for sentence in _SENTENCE_END.split(text))


def _sentence_is_standing(sentence: str) -> bool:
    sentence = _QUOTED.sub("it", sentence)
    if _HANDS_OVER.search(sentence) or _QUESTION.search(sentence):
        return False
    return any(pattern.search(sentence) for pattern in _PATTERNS)
