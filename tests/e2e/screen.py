"""What a run shows: a line that replaces itself on a terminal, plain lines elsewhere."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

from bench import check, equal, experiment, has, main

LONG = experiment(tokens=6400)


def on_a_terminal(bench, columns, *args):
    """Everything that a terminal of this width is sent."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([bench.colm, *args], cwd=bench.folder, env=bench.env, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    bench.started.append(process)
    os.close(theirs)
    text = b""
    while True:
        try:
            more = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not more:
            break
        text += more
    os.close(ours)
    return process.wait(), text.decode()


def left_standing(text):
    """The lines that a person sees in the end."""
    return [re.split(r"\r\x1b\[K", line)[-1] for line in text.replace("\r\n", "\n").split("\n")]


def progress_replaces_itself(bench):
    for columns in (40, 100):
        code, text = on_a_terminal(bench, columns, "run", bench.write(LONG), "--db", bench.new_db(), "--device", "reference")
        equal(code, 0, "exit status")
        states = re.findall(r"\r\x1b\[K([^\r\n]+)(?=\r\x1b)", text)
        steps = [s for s in states if "loss" in s or re.search(r"/[24]00,", s)]
        check(len(steps) >= 4, f"hardly any progress: {states}")
        check(all(len(s) < columns for s in states), f"states of progress that wrap at {columns} columns")
        if columns == 100:
            check(all(re.fullmatch(r"\w+/1: [\w+]+ \d+/\d+, loss \d+\.\d+, \S+ tokens/s, \S+ left", s) for s in steps), f"{steps}")
        lines = left_standing(text)
        check(not any("left" in line and "loss" in line for line in lines), f"progress was left standing: {lines}")
        equal(sum("trained" in line for line in lines), 4, "lines about trainings")
        has(lines[-2], "all 4 runs finished; to compare them: colm compare small --db ")


def plain_lines_elsewhere(bench):
    result = bench.run(LONG, bench.new_db()).expect()
    check(not re.search(r"[\r\x1b]", result.out + result.err), "control characters in plain lines")
    equal(result.err, "", "warnings")
    lines = result.out.splitlines()
    has(lines[-1], "all 4 runs finished")
    wanted = [r'corpus "sea": 24 documents', r'corpus "code": 24 documents', r"base/1: trained <2> on sea: loss \d", r"base/1: sea_cloze, acc: \d",
              r"base/1: sea_bits, bits_per_byte: [\d.]+ \+- ", r"expand/1: grown from <2> to <2,1>; logits certified unchanged",
              r"expand/1: trained <2,1> on code: .*; frozen chains certified unchanged", r"expand/1: code_bits, bits_per_byte by scale: [\d.]+, [\d.]+ \+- ",
              r"scratch/1: trained <2,1> on sea\+code: "]
    at = 0
    for pattern in wanted:
        found = [i for i in range(at, len(lines)) if re.match(pattern, lines[i])]
        check(found, f"no line {pattern!r} after line {at} of {lines}")
        at = found[0]
    check("nan" not in result.out, "nan is shown to a person")


main([progress_replaces_itself, plain_lines_elsewhere])
