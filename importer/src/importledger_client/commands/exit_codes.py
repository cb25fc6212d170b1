"""Exit codes of importbook: 0 all went well, 1 something is not as it should be, 2 wrong use or nothing done."""

OK, SOMETHING_WRONG, NOTHING_DONE, INTERRUPTED = 0, 1, 2, 130
