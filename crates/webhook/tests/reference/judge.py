"""Reads cases from stdin and prints, for each, whether the reference package of Python believes the message."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "python"))

from standardwebhooks import Webhook, WebhookVerificationError  # noqa: E402


def believes(case):
    headers = {
        "webhook-id": case["id"],
        "webhook-timestamp": case["timestamp"],
        "webhook-signature": case["signature"],
    }
    try:
        Webhook(case["secret"]).verify(case["body"], headers, json_parse=False)
    except WebhookVerificationError:
        return False
    return True


json.dump([[case["name"], believes(case)] for case in json.load(sys.stdin)], sys.stdout)
