"""What people get wrong: each time one clear line, the right exit status, and nothing left running."""
import json
import os
import re
import subprocess

from bench import INPUT, IO, NO_DEVICE, USAGE, Skip, check, equal, experiment, has, main

COMMANDS = {  # and what each takes
    "run": ["--db", "--device", "--kernels", "--fresh", "--validate", "--sync", "--submit-gflop", "--unsafe-device"],
    "validate": [],
    "plan": ["--json", "--csv"],
    "bench": ["--interleave", "--profile", "--shapes", "--alone", "--tune", "--seconds", "--batch", "--context", "--precision", "--device", "--kernels", "--json", "--csv"],
    "selftest": ["--device", "--kernels", "--validate", "--json", "--csv"],
    "devices": ["--json", "--csv"],
    "compare": ["--db", "--json", "--csv"],
    "runs": ["--db", "--json", "--csv"],
    "show": ["--db", "--json", "--csv"],
    "query": ["--db", "--json", "--csv"],
}


def help_for_everything(bench):
    general = bench("--help").expect().out
    for command, options in COMMANDS.items():
        has(general, command)
        for way in ([command, "--help"], [command, "-h"], ["help", command], [command, "a", "b", "--help"]):
            text = bench(*way).expect().out
            equal(re.findall(r"^  (--\S+)", text, re.M), options, f"options of {command}")
            check(max(map(len, text.splitlines())) <= 80, f"help of {command} is wider than 80 columns")
    has(bench("--version").expect().out, "colm 0.")
    equal(bench().expect(USAGE).err, general, "what a bare call says")


def wrong_words(bench):
    bench("frobnicate").one_line(USAGE, "unknown command frobnicate", "`colm --help`")
    for command, options in COMMANDS.items():
        bench(command, "--frobnicate").one_line(USAGE, "unknown option --frobnicate", f"`colm {command} --help`")
        if "--csv" in options:
            words = {"plan": ["x.json"], "compare": ["x"], "show": ["1"], "query": ["SELECT 1"]}.get(command, [])
            bench(command, *words, "--json", "--csv").one_line(USAGE, "--json or --csv")
    for command in ("run", "validate", "plan", "compare", "show", "query"):
        bench(command).one_line(USAGE, "missing: ")
    bench("runs", "extra").one_line(USAGE, "one word too many: extra")
    bench("run", "x.json", "--db").one_line(USAGE, "a value is missing after --db")
    bench("run", "x.json", "--fresh=yes").one_line(USAGE, "no value belongs to --fresh")
    for number in ("much", "-1", "0", "nan", "1e99", ""):
        bench("run", "x.json", "--submit-gflop=" + number).one_line(USAGE, "--submit-gflop")


def wrong_files(bench):
    good = json.dumps(experiment(), indent=1)
    bad = {
        "missing.json": (None, ["No such file"]),
        "folder.json": ("folder", ["folder.json"]),
        "empty.json": ("", ["empty.json:1"]),
        "comma.json": (good.replace('"seeds"', ",", 1).replace('"data": {', ', "data": {', 1), ["comma.json:4"]),
        "half.json": (good[:200], ["half.json:"]),
        "binary.json": ("\0\1\2", ["binary.json:1"]),
        "key.json": (good.replace('"layers"', '"layer"'), ["key.json:", "model", 'layer', 'layers']),
        "number.json": (good.replace('"lr": 0.01', '"lr": "0.01"'), ["number.json:", "train.lr"]),
        "arm.json": (good.replace('"from": "base"', '"from": "bass"', 1), ["arm.json:", "bass", "base"]),
        "head.json": (good.replace('"width": 16', '"width": 17', 1), ["head.json:", "17"]),
    }
    os.mkdir(bench.path("folder.json"))
    for name, (text, parts) in bad.items():
        if text is not None and text != "folder":
            with open(bench.path(name), "w") as f:
                f.write(text)
        for command in (["validate"], ["plan"], ["run", "--device", "reference"]):
            result = bench(*command, name)
            equal(result.code, IO if name == "missing.json" else INPUT, f"exit status of {command} {name}: {result.err}")
            result.one_line(result.code, *parts)
    check(not os.path.exists(bench.path("results")), "a database was made for a file that is wrong")


def wrong_texts(bench):
    db = bench.new_db()
    spec = experiment()
    spec["data"]["code"]["text"] = ["cold"]
    bench.run(spec, db).one_line(INPUT, 'corpus "code"', "cold")
    spec["data"]["code"]["text"] = ["code/00.txt"]  # one document cannot be on both sides
    bench.run(spec, db).one_line(INPUT, 'corpus "code"')
    spec = experiment(tasks={"quiz": {"choice": "quiz.jsonl"}})
    bench.run(spec, db).one_line(IO, 'task "quiz"', "quiz.jsonl")
    spec = experiment()
    spec["model"]["context"] = 8192
    bench.run(spec, db).one_line(INPUT, "small.json:", "8192", "training tokens")
    equal(bench.json("runs", "--db", db), [], "runs")


def wrong_devices(bench):
    db, spec = bench.new_db(), experiment()
    for device in ("no such thing", "99", "ffffffffffffffffffffffffffffffff"):
        bench.run(spec, db, "--device", device).one_line(NO_DEVICE)
    device = bench.need_vulkan()
    bench.run(spec, db, "--device", "no such thing").one_line(NO_DEVICE, "no such thing", device)
    bench.run(spec, db, "--device", device, "--kernels", "fast").one_line(INPUT, 'no kernel class "fast"', "portable")
    equal(bench.json("runs", "--db", db), [], "runs")


def wrong_databases(bench):
    spec = experiment()
    bench.run(spec, bench.folder).one_line(IO, bench.folder)
    with open(bench.path("text.db"), "w") as f:
        f.write("This is no database. " * 100)
    bench.run(spec, bench.path("text.db")).one_line(INPUT, "text.db", "--db")
    bench.run(spec, bench.path("text.db", "below.db")).one_line(IO, "text.db")
    for command in (["runs"], ["show", "1"], ["compare", "small"], ["query", "SELECT 1"]):
        bench(*command, "--db", bench.path("none.db")).one_line(INPUT, "none.db", "colm run")
    check(not os.path.exists(bench.path("none.db")), "reading made a database")
    db = bench.new_db()
    bench.run(spec, db).expect()
    bench("show", "99", "--db", db).one_line(INPUT, "99")
    bench("show", "small/expanse", "--db", db).one_line(INPUT, "expanse", "expand")
    bench("compare", "smell", "--db", db).one_line(INPUT, "smell", "small")
    bench("query", "SELEC 1", "--db", db).one_line(INPUT, "SELEC")
    bench("query", "SELECT nothing FROM run", "--db", db).one_line(INPUT, "nothing")


def a_folder_that_may_not_be_written(bench):
    closed = bench.path("closed")
    os.mkdir(closed)
    os.chmod(closed, 0o555)
    more = {}
    if os.geteuid() == 0:  # whom no mode stops
        os.chmod(bench.folder, 0o755)
        more["preexec_fn"] = lambda: os.setuid(65534)
        try:
            bench("--version", **more).expect()
        except PermissionError:
            raise Skip("only root can start the program here")
    bench.run(experiment(), os.path.join(closed, "results.db"), **more).one_line(IO, closed)


def output_that_cannot_be_written(bench):
    if not os.path.exists("/dev/full"):
        raise Skip("there is no /dev/full")
    for command in (["--help"], ["plan", bench.write(experiment())]):
        with open("/dev/full", "w") as full:
            result = subprocess.run([bench.colm, *command], stdout=full, stderr=subprocess.PIPE, cwd=bench.folder, env=bench.env)
        equal((result.returncode, result.stderr), (IO, b"colm: the output could not be written\n"), f"what {command} says")


def the_environment_names_the_database(bench):
    db = bench.new_db()
    bench("run", bench.write(experiment()), "--device", "reference", env={"COLM_DB": db}).expect()
    has(bench("runs", env={"COLM_DB": db}).expect().out, "finetune")
    bench("runs").one_line(INPUT, "results/colm.db")


main([help_for_everything, wrong_words, wrong_files, wrong_texts, wrong_devices, wrong_databases, a_folder_that_may_not_be_written,
      output_that_cannot_be_written, the_environment_names_the_database])
