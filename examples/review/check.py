#!/usr/bin/env python3
"""Checks a document, as a program under `tenure work --exec`: the snapshot on stdin, the report on stdout."""

import json
import re
import sys

SENTENCE_WORDS_MAX = 40
UNFINISHED = ("lorem ipsum", "tbd", "???")


def errors_of(text: str) -> list[str]:
    found = [f"`{mark}` stands there" for mark in UNFINISHED if mark in text.lower()]
    for sentence in re.split(r"[.!?]\s", text):
        count = len(sentence.split())
        if count > SENTENCE_WORDS_MAX:
            found.append(f"a sentence has {count} words: {' '.join(sentence.split()[:5])} …")
    return found


fields = json.load(sys.stdin)["artifacts"][0]["fields"]
words = len(fields["text"].split())
print(json.dumps({"summary": f"{fields['title']}: {words} words", "errors": errors_of(fields["text"])}))
