"""From Celery to Tenure, one queue at a time, while both run.

    celery -A shop worker --queues letters        # the old worker, as before
    python shop.py work                           # the new worker, beside it
    python shop.py add 100                        # producers: NEW_SHARE percent of the jobs go to Tenure
    python shop.py move                           # what still waits in Celery's queue goes to Tenure

1. Deploy with NEW_SHARE=0: nothing changes but that the new worker is there.
2. Raise NEW_SHARE step by step. A job always goes the same way, so a producer that repeats it makes no second one.
3. At 100, stop the old worker (SIGTERM: it finishes what it has) and `move` what is left: jobs with a countdown, too.
4. Delete `old_letter`, `move_waiting` and the broker.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Callable
from datetime import datetime
from queue import Empty
from typing import Any

from celery import Celery
from tenure import Client, Worker, task

app = Celery("shop", broker=os.environ.get("CELERY_BROKER", "redis://127.0.0.1:6379/0"))
app.conf.task_routes = {"shop.letter": {"queue": "letters"}}
NEW_SHARE = int(os.environ.get("NEW_SHARE", "0"))
LETTERS = os.environ.get("LETTERS_FILE", "letters.txt")


def write_letter(number: int, to: str) -> str:
    """The work. Neither queue has anything to do with it."""
    with open(LETTERS, "a") as letters:
        print(number, to, os.environ.get("WORKER", "?"), file=letters)
    return f"letter {number} to {to}"


@app.task(name="shop.letter", acks_late=True)
def old_letter(number: int, to: str) -> str:
    return write_letter(number, to)


@task(queue="letters", kind="shop.letter", retry=5)
def letter(number: int, to: str) -> str:
    return write_letter(number, to)


#: By the names that Celery's messages have.
NEW_TASKS: dict[str, Any] = {"shop.letter": letter}


def is_new(number: int) -> bool:
    """Whether a job goes to Tenure: by its own number, and not by chance."""
    return zlib.crc32(str(number).encode()) % 100 < NEW_SHARE


def send_letter(client: Client, number: int, to: str) -> str:
    """What producers call instead of `old_letter.delay`."""
    if is_new(number):
        once = letter.options(idempotency_key=f"letter-{number}")
        return client.submit(once, number, to).id
    return str(old_letter.apply_async((number, to)).id)


def submit_message(client: Client, message: Any) -> str:
    """Submits what a message of Celery asks for. Its id is the key: a message that is read twice makes one run."""
    headers = message.headers
    args, kwargs, _ = message.payload
    options: dict[str, Any] = {"idempotency_key": f"celery-{headers['id']}"}
    if headers.get("eta"):
        options["run_at"] = datetime.fromisoformat(headers["eta"])
    return client.submit(NEW_TASKS[headers["task"]].options(**options), *args, **kwargs).id


def move_waiting(client: Client, queue: str, submit: Callable[[Client, Any], str] = submit_message) -> int:
    """Moves what waits in a queue of Celery. A message is acknowledged after its run was accepted, so a crash in between
    leaves it in the queue, and the next call finds its run."""
    moved = 0
    with app.connection_for_read() as connection, connection.SimpleQueue(queue) as waiting:
        while True:
            try:
                message = waiting.get(block=False)
            except Empty:
                return moved
            submit(client, message)
            message.ack()
            moved += 1


def main(command: str, *words: str) -> None:
    if command == "work":
        Worker(letter).run()
        return
    with Client() as client:
        if command == "add":
            for number in range(int(words[0])):
                send_letter(client, number, f"customer-{number}")
        elif command == "move":
            print(move_waiting(client, "letters"), "moved")


if __name__ == "__main__":
    main(*sys.argv[1:])
