"""What the end-to-end tests share: a folder with two small texts, experiments over them, the program, its database.

A test program is a list of functions that check; `main` runs them and speaks TAP. Needs Python's own library only.
"""
import csv
import hashlib
import io
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback

INPUT, USAGE, IO, NO_DEVICE, CHECK, INTERRUPTED = 1, 2, 3, 5, 7, 8  # colm_status

WORDS = {
    "sea": "waves tides salty boats gulls under sails ports deeps blues winds shore reefs storm".split(),
    "code": "while until begin break stack queue shift print array index bytes const throw class".split(),
}


class Skip(Exception):
    """A case that cannot be tried here; its text says why."""


class Failed(Exception):
    pass


def check(condition, what):
    if not condition:
        raise Failed(what)


def equal(got, wanted, what):
    check(got == wanted, f"{what}: got {got!r}, wanted {wanted!r}")


def has(text, part):
    check(part in text, f"{part!r} is not in {text!r}")


def write_texts(folder, words, seed, documents=24, sentences=14):
    """Sentences of four words: 24 characters, so that two of them fit into most of a context of 32 bytes."""
    os.makedirs(folder)
    rng = random.Random(seed)
    for number in range(documents):
        with open(os.path.join(folder, f"{number:02}.txt"), "w") as f:
            for _ in range(sentences):
                f.write(" ".join(rng.choice(words) for _ in range(4)).capitalize() + ". ")


def experiment(name="small", tokens=1280, **changes):
    """The quickstart's question at toy size. Changes replace top-level members."""
    train = lambda on, times=1: {"train": {"on": on, "tokens": times * tokens}}
    return {
        "colm": 1,
        "name": name,
        "data": {d: {"text": [d], "heldout": 0.2} for d in WORDS},
        "model": {"layers": 2, "width": 16, "ffn": 32, "chains": [2], "context": 32},
        "train": {"batch": 2, "lr": 0.01, "warmup": 3, "log_every": 5},
        "tasks": {
            "sea_cloze": {"cloze": "sea", "items": 8, "sentences": 1, "choices": 3},
            "sea_bits": {"bits_per_byte": "sea", "max_bytes": 600},
            "code_bits": {"bits_per_byte": "code", "max_bytes": 600},
        },
        "arms": {
            "base": {"stages": [train("sea"), {"eval": {}}]},
            "expand": {"from": "base", "stages": [{"grow": {"add": [1]}}, train("code"), {"eval": {}}]},
            "finetune": {"from": "base", "stages": [train("code"), {"eval": {}}]},
            "scratch": {"model": {"width": 24, "ffn": 48, "chains": [2, 1]}, "stages": [train(["sea", "code"], 2), {"eval": {}}]},
        },
        **changes,
    }


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def expect(self, code=0):
        equal(self.code, code, f"exit status (stdout {self.out[-600:]!r}, stderr {self.err[-600:]!r})")
        return self

    def one_line(self, code, *parts):
        """Failed with this status, and said so in one line that starts with the program's name."""
        self.expect(code)
        equal(self.err.count("\n"), 1, f"lines of {self.err!r}")
        check(self.err.startswith("colm: "), f"{self.err!r} does not start with the program's name")
        for part in parts:
            has(self.err, part)
        return self


class Bench:
    """A temporary folder with the texts in it, where everything runs."""

    def __init__(self, colm):
        self.colm = os.path.abspath(colm)
        self.folder = tempfile.mkdtemp(prefix="colm-e2e-")
        self.number = 0
        self.started = []
        # Nothing of the person's own settings, and a cache of compiled kernels of our own.
        unset = {"COLM_DB", "VK_INSTANCE_LAYERS", "COLM_DEBUG"}
        self.env = {k: v for k, v in os.environ.items() if k not in unset}
        self.env["XDG_CACHE_HOME"] = self.path("cache")
        for seed, (name, words) in enumerate(WORDS.items()):
            write_texts(self.path(name), words, seed)

    def done(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def new_db(self):
        self.number += 1
        return self.path(f"db{self.number}", "results.db")

    def write(self, spec):
        """An experiment file named after the experiment."""
        path = self.path(spec["name"] + ".json")
        with open(path, "w") as f:
            json.dump(spec, f, indent=1)
        return path

    def start(self, *args, env={}, **more):
        process = subprocess.Popen([self.colm, *args], cwd=self.folder, env={**self.env, **env}, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
        self.started.append(process)
        return process

    def finish(self, process):
        out, err = process.communicate(timeout=300)
        return Result(process.returncode, out, err)

    def __call__(self, *args, **more):
        return self.finish(self.start(*args, **more))

    def run(self, spec, db, *options, **more):
        """`colm run` on the reference device unless options name one."""
        device = [] if "--device" in options else ["--device", "reference"]
        return self("run", self.write(spec), "--db", db, *device, *options, **more)

    def json(self, *args):
        """Of a command with --json: strict JSON."""
        return strict_json(self(*args, "--json").expect().out)

    def need_vulkan(self):
        """The name of the device that is tested."""
        devices = self("devices", "--json")
        if devices.code == NO_DEVICE:
            raise Skip(devices.err.strip())
        usable = [d for d in strict_json(devices.expect().out) if d["usable"]]
        if not usable:
            raise Skip("no Vulkan device here meets colm's budget")
        return usable[0]["uuid"]


def strict_json(text):
    def refuse(word):
        raise Failed(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def strict_csv(text):
    rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    check(all(len(r) == len(rows[0]) for r in rows), f"rows of different lengths in {text!r}")
    return [dict(zip(rows[0], r)) for r in rows[1:]]


def select(db, sql, *values):
    """Rows of a database, read as any other tool would."""
    connection = sqlite3.connect(f"file:{db}?mode=ro", uri=True, timeout=30)
    try:
        return connection.execute(sql, values).fetchall()
    finally:
        connection.close()


def checkpoints(db):
    """Arm, seed and place of every checkpoint with the SHA-256 of its bytes, which are all there."""
    rows = select(db, "SELECT r.arm, r.seed, s.place, s.checkpoint FROM stage s JOIN run r ON r.id = s.run "
                      "WHERE s.checkpoint IS NOT NULL ORDER BY 1, 2, 3")
    check(rows, f"no checkpoints in {db}")
    found = {}
    for arm, seed, place, name in rows:
        with open(os.path.join(db + ".files", name), "rb") as f:
            found[arm, seed, place] = hashlib.sha256(f.read()).hexdigest()
    return found


def measured(db):
    """Everything that an equal run must find again: scores, answers and losses, but nothing of time."""
    return {
        "score": select(db, "SELECT arm, seed, place, task, scale, metric, value, stderr, n FROM result ORDER BY 1, 2, 3, 4, 5, 6"),
        "answer": select(db, "SELECT r.arm, r.seed, s.place, a.task, a.scale, a.item, a.sums FROM answer a JOIN stage s ON s.id = a.stage "
                             "JOIN run r ON r.id = s.run ORDER BY 1, 2, 3, 4, 5, 6"),
        "metric": select(db, "SELECT r.arm, r.seed, s.place, m.name, m.step, m.value FROM metric m JOIN stage s ON s.id = m.stage "
                             "JOIN run r ON r.id = s.run WHERE m.name <> 'tokens_per_s' ORDER BY 1, 2, 3, 4, 5"),
    }


def same_results(db, other):
    equal(checkpoints(db), checkpoints(other), "checkpoints")
    a, b = measured(db), measured(other)
    for table in a:
        check(a[table], f"nothing in {table}")
        equal(a[table], b[table], f"table {table}")


def statuses(db):
    return dict(select(db, "SELECT arm, status FROM run"))


def wait_until(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, f"waited {seconds} s in vain: {what}")
        time.sleep(0.01)


def main(cases):
    """Runs each case with a bench that they share: `program.py COLM`."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if not os.access(sys.argv[1], os.X_OK):
        sys.exit(f"{sys.argv[1]} is no program")
    bench, bad = Bench(sys.argv[1]), 0
    try:
        print(f"1..{len(cases)}", flush=True)
        for number, case in enumerate(cases, 1):
            name = case.__name__.replace("_", " ")
            try:
                case(bench)
                print(f"ok {number} - {name}", flush=True)
            except Skip as why:
                print(f"ok {number} - {name} # SKIP {why}", flush=True)
            except Exception as e:  # whatever it is, the case did not pass
                bad += 1
                here = [f for f in traceback.extract_tb(e.__traceback__) if f.filename == os.path.abspath(sys.argv[0])]
                print(f"# {type(e).__name__} at " + ", ".join(f"line {f.lineno}" for f in here))
                print("\n".join(f"# {line}" for line in str(e).splitlines()))
                print(f"not ok {number} - {name}", flush=True)
    finally:
        bench.done()
    sys.exit(bad > 0)
