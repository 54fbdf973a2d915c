#!/usr/bin/env python3
"""What tests/tally.py makes of each way in which a test program can end, as TAP: tally_check.py PATH-OF-TALLY."""
import importlib.util
import sys

sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("tally", sys.argv[1])
tally = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tally)

FINE = "ok 1 - a\nok 2 - b # SKIP no data\n"
# what happened, what the program wrote, what meson logged of it, expected (passed, failed, skipped)
TAP = [
    ("cases pass and are skipped", FINE + "1..2\n", {}, (1, 0, 1)),
    ("a case fails", "# why\nnot ok 1 - a\nok 2 - b\n1..2\n", {"result": "ERROR", "returncode": 1}, (1, 1, 0)),
    ("a failed case that says SKIP still fails", "not ok 1 - a # SKIP\n1..1\n", {"result": "FAIL", "returncode": 1}, (0, 1, 0)),
    ("a crash after good cases", FINE, {"result": "ERROR", "returncode": -11}, (1, 1, 1)),
    ("a crash after the plan", FINE + "1..2\n", {"result": "ERROR", "returncode": -6}, (1, 1, 1)),
    ("an end before the plan", FINE, {}, (1, 1, 1)),
    ("fewer cases than planned", "1..3\n" + FINE, {"result": "ERROR"}, (1, 1, 1)),
    ("a leak after good cases", FINE + "1..2\n", {"result": "ERROR", "returncode": 1}, (1, 1, 1)),
    ("a time limit", "ok 1 - a\n", {"result": "TIMEOUT", "returncode": -15}, (1, 1, 0)),
    ("silence", "", {"result": "ERROR"}, (0, 1, 0)),
    ("a bail out", "ok 1 - a\nBail out! no device\n1..1\n", {"result": "ERROR"}, (1, 1, 0)),
    ("a program skipped as a whole", "1..0 # SKIP no PyTorch\n", {"result": "SKIP"}, (0, 0, 1)),
    ("no case at all", "1..0\n", {}, (0, 1, 0)),
]
PROGRAM = [
    ("a good exit status", {}, (1, 0, 0)),
    ("exit status 77", {"result": "SKIP", "returncode": 77}, (0, 0, 1)),
    ("a bad exit status", {"result": "FAIL", "returncode": 3}, (0, 1, 0)),
]

number = bad = 0


def case(what, add, entry, expected):
    global number, bad
    t = tally.Tally()
    getattr(t, add)("program", {"result": "OK", "returncode": 0, **entry})
    got = (t.passed, len(t.failed), len(t.skipped))
    number += 1
    if got != expected:
        bad += 1
        print(f"# passed, failed, skipped: {got} instead of {expected}")
    print(f"{'ok' if got == expected else 'not ok'} {number} - {what}")


for what, wrote, entry, expected in TAP:
    case(what, "add_tap", {"stdout": wrote, **entry}, expected)
for what, entry, expected in PROGRAM:
    case(what, "add_program", entry, expected)
print(f"1..{number}")
sys.exit(1 if bad else 0)
