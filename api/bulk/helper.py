"""A helper of an api process: judges the batches that come through its standard input, until that ends.

A process of its own has the whole of a processor, and the event loop of the api the whole of its own.
"""

import os
import signal
import struct
import sys

from api.bulk.judging import decode_question, encode_judged, judge_lines
from runtime.interpreter import tune_interpreter
from telemetry.log import begin_process

SIZE = struct.Struct("!I")
NICENESS = 2
"""A book that comes in keeps neither workers nor other requests from a processor; it waits for them."""


def main(level: str, form: str) -> None:
    """Answers go to the standard output that the process was started with; nothing else is written there."""
    begin_process(level, form, is_role=True)
    os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the api tells us when to end
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    tune_interpreter()
    while len(head := questions.read(SIZE.size)) == SIZE.size:
        body = questions.read(SIZE.unpack(head)[0])
        question = decode_question(body)
        answer = encode_judged[question.language](judge_lines(question))
        answers.write(SIZE.pack(len(answer)) + answer)
        answers.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
