"""Runs that end before their time: killed, asked to stop, beside each other, with files gone. `--many` tries more deaths."""
import os
import random
import resource
import signal
import sqlite3
import sys
import time

from bench import (CHECK, INPUT, INTERRUPTED, IO, check, checkpoints, equal, experiment, has, main, same_results, select, statuses,
                   wait_until)

MANY = "--many" in sys.argv
LONG = experiment(tokens=6400)  # a second on the reference
done = {}


def undisturbed(bench, device="reference"):
    """A database of LONG that nothing happened to, and the seconds that it took."""
    if device not in done:
        db, start = bench.new_db(), time.monotonic()
        bench.run(LONG, db, "--device", device).expect()
        done[device] = db, time.monotonic() - start
    return done[device]


def start(bench, spec, db, *options, **more):
    device = [] if "--device" in options else ["--device", "reference"]
    return bench.start("run", bench.write(spec), "--db", db, *device, *options, **more)


def statuses_of_stages(db):
    """Of a database that may not be there yet."""
    try:
        return [s for s, in select(db, "SELECT status FROM stage ORDER BY id")]
    except sqlite3.OperationalError:
        return []


def start_until(bench, spec, db, stages, **more):
    """A process that has come to its so-many-th stage."""
    process = start(bench, spec, db, **more)
    wait_until(lambda: process.poll() is not None or len(statuses_of_stages(db)) >= stages, f"{stages} stages")
    check(process.poll() is None, f"it ended before: {bench.finish(process).err}" if process.poll() is not None else "")
    return process


def kill_at_random_moments(bench, device, times):
    wanted, seconds = undisturbed(bench, device)
    rng, db = random.Random(times), bench.new_db()
    for _ in range(times):
        process = start(bench, LONG, db, "--device", device)
        time.sleep(rng.uniform(0, seconds))
        process.kill()
        process.wait()
        if os.path.exists(db):
            runs = bench("runs", "--db", db, "--json")
            check(runs.code == 0 or "no results yet" in runs.err, f"after the kill: {runs.err}")
            check('"running"' not in runs.out, f"a dead run is shown as running: {runs.out}")
    bench.run(LONG, db, "--device", device).expect()
    equal(set(statuses(db).values()), {"finished"}, "status of all runs in the end")
    equal(set(statuses_of_stages(db)), {"finished"}, "status of all stages in the end")
    same_results(db, wanted)


def killed_runs_end_as_if_nothing_had_happened(bench):
    kill_at_random_moments(bench, "reference", 24 if MANY else 5)


def killed_runs_on_vulkan_too(bench):
    kill_at_random_moments(bench, bench.need_vulkan(), 12 if MANY else 2)


def a_killed_run_is_shown_as_interrupted(bench):
    db = bench.new_db()
    process = start_until(bench, LONG, db, 1)
    equal(bench.json("runs", "--db", db)[0]["status"], "running", "status while it runs")
    process.kill()
    process.wait()
    shown = bench.json("runs", "--db", db)[0]
    equal((shown["status"], shown["stages_finished"]), ("interrupted", 0), "status and stages after the kill")
    equal(bench.json("show", "small/base", "--db", db)["stages"][0]["status"], "interrupted", "status of the stage")


def asked_to_stop_it_stops_and_says_so(bench):
    asked = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    long = experiment(tokens=300000)

    def heeded():  # whoever runs the tests may ignore some, and colm leaves ignored what it finds ignored
        for sig in asked:
            signal.signal(sig, signal.SIG_DFL)

    for sig in asked:
        db = bench.new_db()
        process = start_until(bench, long, db, 1, preexec_fn=heeded)
        process.send_signal(sig)
        bench.finish(process).one_line(INTERRUPTED, "base/1: stages[0] train: stopped after step", "`colm run ")
        run, = select(db, "SELECT status, reason FROM run")
        stage, = select(db, "SELECT status, reason FROM stage")
        equal((run[0], stage[0]), ("interrupted", "interrupted"), "status")
        has(run[1], "stopped after step")
        check(select(db, "SELECT count(*) FROM metric")[0][0] > 0, "the losses until then are not there")


def asked_to_stop_while_it_evaluates(bench):
    db = bench.new_db()
    slow = experiment(tokens=64, tasks={"bits": {"bits_per_byte": "sea"}, "cloze": {"cloze": "sea", "items": 20, "sentences": 1}})
    slow["model"].update(layers=12, width=64, ffn=128)
    process = start_until(bench, slow, db, 2)
    process.send_signal(signal.SIGTERM)
    bench.finish(process).one_line(INTERRUPTED, "base/1: stages[1] eval: task", "stopped")
    equal(statuses_of_stages(db), ["finished", "interrupted"], "stages")
    equal(select(db, "SELECT count(*) FROM score WHERE task = 'cloze'"), [(0,)], "scores of the unfinished task")


def what_ignores_hangups_goes_on(bench):
    db = bench.new_db()
    process = start_until(bench, LONG, db, 1, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.send_signal(signal.SIGHUP)
    bench.finish(process).expect()


def two_experiments_share_a_database(bench):
    db = bench.new_db()
    other = experiment(name="other", tokens=6400)
    processes = [start(bench, spec, db) for spec in (LONG, other)]
    for process in processes:
        bench.finish(process).expect()
    equal(select(db, "SELECT count(*) FROM run WHERE status = 'finished'"), [(8,)], "finished runs")


def two_processes_on_one_device_compute_the_same_bits(bench):
    device, spec = bench.need_vulkan(), experiment()
    alone, dbs = bench.new_db(), [bench.new_db(), bench.new_db()]
    bench.run(spec, alone, "--device", device).expect()
    processes = [start(bench, spec, db, "--device", device) for db in dbs]
    for process in processes:
        bench.finish(process).expect()
    for db in dbs:
        same_results(db, alone)


def a_run_has_one_process_only(bench):
    db = bench.new_db()
    process = start_until(bench, LONG, db, 1)
    bench.run(LONG, db).one_line(INPUT, "is being run already", f"process {process.pid} ")
    bench.finish(process).expect()
    same_results(db, undisturbed(bench)[0])


def lost_and_damaged_checkpoints_are_made_again(bench):
    db = bench.new_db()
    spec = experiment()
    bench.run(spec, db).expect()
    before = checkpoints(db)
    path = lambda arm, place: os.path.join(db + ".files", select(db, "SELECT s.checkpoint FROM stage s JOIN run r ON r.id = s.run "
                                                                     "WHERE r.arm = ? AND s.place = ?", arm, place)[0][0])
    os.remove(path("base", 0))
    with open(path("expand", 1), "r+b") as f:
        f.seek(-1, os.SEEK_END)
        last = f.read(1)
        f.seek(-1, os.SEEK_END)
        f.write(bytes([last[0] ^ 1]))
    with open(path("scratch", 0), "r+b") as f:
        f.truncate(1000)
    result = bench.run(spec, db).expect()
    for arm, trouble in (("base", "is gone"), ("expand", "is damaged"), ("scratch", "is damaged")):
        line, = [x for x in result.err.splitlines() if f"{arm}/1" in x]
        has(line, trouble)
        has(line, "run again")
    has(result.out, "expand/1: 1 of 3 stages finished before")
    has(result.out, "finetune/1: finished before")
    equal(checkpoints(db), before, "checkpoints")


def a_failing_arm_stops_no_other(bench):
    db = bench.new_db()
    spec = experiment(name="bad")
    # Decay turns every weight over and enlarges it a hundredfold at each step.
    bad = {"on": "sea", "tokens": 12800, "lr": 10, "decay": 10, "clip": 0, "warmup": 0}
    spec["arms"] = {
        "bad": {"stages": [{"eval": {}}, {"train": bad}, {"eval": {}}]},
        "child": {"from": "bad", "stages": [{"eval": {}}]},
        "grandchild": {"from": "child", "stages": [{"eval": {}}]},
        "good": {"stages": [{"train": {"on": "sea", "tokens": 320}}, {"eval": {}}]},
    }
    result = bench.run(spec, db).expect(CHECK)
    lines = result.err.splitlines()
    equal(len(lines), 4, f"lines of {result.err}")
    has(lines[0], "colm: bad/1: stages[1] train: step ")
    has(lines[0], "not finite")
    has(lines[1], "colm: child/1: not run: arm bad")
    has(lines[2], "colm: grandchild/1: not run: arm child")
    has(lines[3], "colm: 3 of 4 runs did not finish, the first: bad/1")
    equal(statuses(db), {"bad": "failed", "good": "finished"}, "status")
    reason, = select(db, "SELECT r.reason, s.reason FROM run r JOIN stage s ON s.run = r.id WHERE s.status = 'failed'")
    for text in reason:
        has(text, "not finite")
    equal(select(db, "SELECT r.arm, s.place, s.status FROM stage s JOIN run r ON r.id = s.run ORDER BY 1, 2"),
          [("bad", 0, "finished"), ("bad", 1, "failed"), ("good", 0, "finished"), ("good", 1, "finished")], "stages")
    check(select(db, "SELECT count(*) FROM metric m JOIN stage s ON s.id = m.stage WHERE s.status = 'failed'")[0][0] > 0, "its losses are not there")
    check("Infinity" not in bench("show", "bad/bad", "--db", db, "--json").expect().out, "infinity in JSON")
    compared = bench.json("compare", "bad", "--db", db)
    equal([a["arm"] for a in compared["arms"] if a["main"] and a["arm"] != "bad"], ["good"], "arms with scores")


def a_full_disk_is_an_error(bench):
    db = bench.new_db()
    spec = experiment(name="big", tokens=64)
    spec["model"].update(width=96, ffn=256)  # checkpoints of half a megabyte

    def small_files_only():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300000, 300000))

    result = bench.run(spec, db, preexec_fn=small_files_only)
    result.one_line(IO, "base/1: stages[0] train", ".safetensors")
    run, = select(db, "SELECT status, reason FROM run")
    equal(run[0], "failed", "status")
    has(run[1], ".safetensors")
    equal(os.listdir(os.path.join(db + ".files", "checkpoints")), [], "files left behind")
    bench.run(spec, db).expect()
    equal(set(statuses(db).values()), {"finished"}, "status once there is room")


cases = [killed_runs_end_as_if_nothing_had_happened, killed_runs_on_vulkan_too]
if not MANY:
    cases += [a_killed_run_is_shown_as_interrupted, asked_to_stop_it_stops_and_says_so, asked_to_stop_while_it_evaluates,
              what_ignores_hangups_goes_on, two_experiments_share_a_database,
              two_processes_on_one_device_compute_the_same_bits, a_run_has_one_process_only,
              lost_and_damaged_checkpoints_are_made_again, a_failing_arm_stops_no_other, a_full_disk_is_an_error]
main(cases)
