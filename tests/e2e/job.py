"""The main job: base, expand, finetune and scratch from a file to the answers in the database, on both kinds of device."""
import json
import os
import sqlite3

from bench import NO_DEVICE, Skip, check, checkpoints, equal, experiment, has, main, same_results, select, strict_csv, strict_json

SPEC = experiment()
NO_DRIVER = {"VK_DRIVER_FILES": "/nonexistent", "VK_ICD_FILENAMES": "/nonexistent"}
done = {}  # device: database of a finished run of SPEC


def finished_db(bench, device):
    if device not in done:
        db = bench.new_db()
        bench.run(SPEC, db, "--device", device).expect()
        done[device] = db
    return done[device]


def look_at_job(bench, device):
    db = finished_db(bench, device)
    runs = {r["arm"]: r for r in bench.json("runs", "--db", db)}
    equal(sorted(runs), sorted(SPEC["arms"]), "arms in the database")
    equal({r["status"] for r in runs.values()}, {"finished"}, "status of all runs")
    for arm, parent in {"base": None, "expand": "base", "finetune": "base", "scratch": None}.items():
        equal(runs[arm]["parent"], parent and runs[parent]["id"], f"parent of {arm}")
    # Scale 1 of the grown model answers as the model it grew from, in every bit, on both texts.
    sums = lambda arm, scale: select(db, "SELECT a.task, a.item, a.sums FROM answer a JOIN stage s ON s.id = a.stage JOIN run r ON r.id = s.run "
                                         "WHERE r.arm = ? AND a.scale = ? ORDER BY 1, 2", arm, scale)
    equal({task for task, _, _ in sums("base", 1)}, set(SPEC["tasks"]), "tasks answered")
    equal(sums("expand", 1), sums("base", 1), "answers of the frozen scale")
    check(sums("expand", 2) != sums("base", 1), "the new chain changes nothing")
    check(sums("finetune", 1) != sums("base", 1), "fine-tuning changes nothing")
    certificates = [json.loads(c) for c, in select(db, "SELECT s.certificate FROM stage s JOIN run r ON r.id = s.run "
                                                       "WHERE r.arm = 'expand' AND s.kind IN ('grow', 'train')")]
    equal(len(certificates), 2, "certificates of growing and training")
    for c in certificates:
        equal((c["tensors_equal"], [s["equal"] for s in c["scales"]]), (True, [True]), "certificate")
    expand = next(a for a in bench.json("compare", "small", "--db", db)["arms"] if a["arm"] == "expand")
    kept = expand["retention"][0]
    check(kept["certified"] and kept["equal"] == kept["answers"] > 0, f"retention {kept}")
    for path, size in select(db, "SELECT path, bytes FROM artifact"):
        equal(os.path.getsize(os.path.join(db + ".files", path)), size, "bytes of a checkpoint")
    equal(select(db, "SELECT count(*) FROM metric m JOIN stage s ON s.id = m.stage WHERE m.name = 'loss' AND s.place = 0 AND s.run = 1"),
          [(5,)], "losses at steps 0, 5, 10, 15 and the last")
    equal(bench.json("compare", "small", "--db", db)["notices"], [], "notices of runs on one device")


def the_whole_job_on_the_reference(bench):
    look_at_job(bench, "reference")


def the_whole_job_on_vulkan(bench):
    look_at_job(bench, bench.need_vulkan())


def vulkan_and_reference_learn_alike(bench):
    losses = lambda db: [v for v, in select(db, "SELECT m.value FROM metric m JOIN stage s ON s.id = m.stage WHERE name = 'loss' ORDER BY s.run, s.place, m.step")]
    one, two = losses(finished_db(bench, "reference")), losses(finished_db(bench, bench.need_vulkan()))
    equal(len(one), len(two), "losses")
    for a, b in zip(one, two):
        check(abs(a - b) <= 1e-3, f"losses {a} and {b}")


def three_times_the_same_bits(bench):
    devices = ["reference"]
    try:
        devices.append(bench.need_vulkan())
    except Skip:
        pass
    for device in devices:
        first = finished_db(bench, device)
        for _ in range(2):
            db = bench.new_db()
            bench.run(SPEC, db, "--device", device).expect()
            same_results(db, first)


def modes_of_vulkan_change_no_bit(bench):
    device = bench.need_vulkan()
    for options in (["--sync"], ["--submit-gflop", "0.001"]):
        db = bench.new_db()
        bench.run(SPEC, db, "--device", device, *options).expect()
        same_results(db, finished_db(bench, device))


def portable_kernels_do_the_job(bench):
    db = bench.new_db()
    bench.run(SPEC, db, "--device", bench.need_vulkan(), "--kernels", "portable").expect()
    has(select(db, "SELECT DISTINCT device FROM run")[0][0], "portable")


def the_validation_layer_has_nothing_to_say(bench):
    db = bench.new_db()
    result = bench.run(SPEC, db, "--device", bench.need_vulkan(), "--validate")
    if result.code == NO_DEVICE and "layer" in result.err:
        raise Skip(result.err.strip())
    equal(result.expect().err, "", "what the layer said")


def every_shape_of_output(bench):
    db = finished_db(bench, "reference")
    file = bench.write(SPEC)
    for command in (["compare", "small"], ["compare", "small/base", "small/expand"], ["runs"], ["show", "small/expand"], ["show", "2"],
                    ["query", "SELECT * FROM result"], ["plan", file]):
        at = [] if command[0] == "plan" else ["--db", db]
        table = bench(*command, *at).expect().out
        has(table, "scale" if command[0] in ("compare", "show", "query") else "small" if command[0] == "runs" else "expand")
        check(max(map(len, table.splitlines())) < 200, f"a table of {command} is too wide")
        rows = strict_json(bench(*command, *at, "--json").expect().out)
        lines = strict_csv(bench(*command, *at, "--csv").expect().out)
        check(rows and lines, f"{command} shows nothing")
        if isinstance(rows, list):
            equal([list(r) for r in rows], [list(r) for r in lines], f"columns of {command}")
    has(bench("validate", file).expect().out, '"small" is valid: 2 data sets, 3 tasks, 4 arms with 9 stages, 1 seed\n')
    bench("query", "DELETE FROM run", "--db", db).one_line(1, "only reading")
    equal(len(select(db, "SELECT * FROM run")), 4, "runs")


def reading_needs_no_vulkan(bench):
    db = finished_db(bench, "reference")
    for command in (["compare", "small"], ["runs"], ["show", "1"], ["query", "SELECT 1"]):
        bench(*command, "--db", db, env=NO_DRIVER).expect()
    bench("validate", bench.write(SPEC), env=NO_DRIVER).expect()
    bench("plan", bench.write(SPEC), env=NO_DRIVER).expect()
    bench("devices", env=NO_DRIVER).one_line(NO_DEVICE)


def the_second_run_skips_and_opens_no_device(bench):
    db = finished_db(bench, "reference")
    before = select(db, "SELECT id, started FROM stage")
    again = bench("run", bench.write(SPEC), "--db", db, env=NO_DRIVER).expect()
    equal(again.out.count("finished before on reference (double, CPU), skipped"), 4, "arms skipped")
    check("device:" not in again.out, "a device was opened")
    equal(select(db, "SELECT id, started FROM stage"), before, "stages")
    bench("run", bench.write(SPEC), "--db", bench.new_db(), env=NO_DRIVER).one_line(NO_DEVICE, "driver")


def fresh_runs_everything_again(bench):
    db = bench.new_db()
    bench.run(SPEC, db).expect()
    before = {i for i, in select(db, "SELECT id FROM stage")}
    result = bench.run(SPEC, db, "--fresh").expect()
    check("skipped" not in result.out, "something was skipped")
    check(not before & {i for i, in select(db, "SELECT id FROM stage")}, "a stage was not run again")
    same_results(db, finished_db(bench, "reference"))


def an_edited_file_keeps_what_did_not_change(bench):
    db = bench.new_db()
    bench.run(SPEC, db).expect()
    more = experiment()
    more["arms"]["again"] = {"from": "expand", "stages": [{"train": {"on": "sea", "tokens": 320}}, {"eval": {}}]}
    result = bench.run(more, db).expect()
    has(result.out, "expand/1: 3 of 3 stages taken from earlier runs")
    copied = dict(select(db, "SELECT r.arm || s.place, s.copied_from FROM stage s JOIN run r ON r.id = s.run WHERE r.experiment = 2"))
    equal({k for k, v in copied.items() if v is None}, {"again0", "again1"}, "stages that ran")
    equal(select(db, "SELECT DISTINCT device FROM run"), [("reference (double, CPU)",)], "device, also of copied runs")
    # Another task: trainings stay, evaluations run again.
    more["tasks"]["code_cloze"] = {"cloze": "code", "items": 4, "sentences": 1, "choices": 2}
    bench.run(more, db).expect()
    ran = select(db, "SELECT DISTINCT s.kind, s.copied_from IS NULL FROM stage s JOIN run r ON r.id = s.run WHERE r.experiment = 3 ORDER BY 1")
    equal(ran, [("eval", 1), ("grow", 0), ("train", 0)], "kinds of stages that ran")
    # And a change of the text itself is seen, though the file is the same.
    with open(bench.path("code", "00.txt"), "a") as f:
        f.write("Another sentence of text. ")
    try:
        bench.run(more, db).expect()
        ran = select(db, "SELECT DISTINCT r.arm FROM stage s JOIN run r ON r.id = s.run WHERE r.experiment = 3 AND s.kind = 'train' AND s.copied_from IS NULL ORDER BY 1")
        equal(ran, [("again",), ("expand",), ("finetune",), ("scratch",)], "arms that trained on the changed text or start from one that did")
    finally:
        with open(bench.path("code", "00.txt"), "r+") as f:
            f.truncate(os.path.getsize(f.name) - len("Another sentence of text. "))


def what_stands_on_other_bytes_runs_again(bench):
    db = bench.new_db()
    bench.run(SPEC, db).expect()
    train = "(SELECT stage.id FROM stage JOIN run ON run.id = stage.run WHERE arm = '%s' AND kind = 'train')"
    with sqlite3.connect(db) as connection:  # as if base had been made again on a device with other bits
        connection.execute("UPDATE stage SET (checkpoint, checkpoint_digest) = (SELECT checkpoint, checkpoint_digest FROM stage "
                           f"WHERE id = {train % 'finetune'}) WHERE id = {train % 'base'}")
    connection.close()
    result = bench.run(SPEC, db).expect()
    has(result.out, "base/1: 1 of 2 stages finished before")
    has(result.out, "scratch/1: finished before")
    equal(result.out.count("finished before"), 2, "arms of which something was kept")
    equal(len(set(d for d, in select(db, "SELECT s.device FROM stage s"))), 1, "devices")


def a_database_moves_with_its_files(bench):
    db, elsewhere = bench.new_db(), bench.path("moved.db")
    bench.run(SPEC, db).expect()
    os.rename(db, elsewhere)
    os.rename(db + ".files", elsewhere + ".files")
    equal(bench.run(SPEC, elsewhere).expect().out.count("skipped"), 4, "arms skipped")
    equal(checkpoints(elsewhere), checkpoints(finished_db(bench, "reference")), "checkpoints")


def the_plan_knows_the_memory(bench):
    device = bench.need_vulkan()
    planned = {(p["arm"], p["stage"]): (p["memory_bytes"], p["tokens"], p["flops"], p["params_total"], p["params_trained"])
               for p in bench.json("plan", bench.write(SPEC)) if p["kind"] == "train"}
    found = {(arm, place): tuple(rest) for arm, place, *rest in
             select(finished_db(bench, device), "SELECT r.arm, s.place, s.memory, s.tokens, s.flops, s.params_total, s.params_trained "
                                                "FROM stage s JOIN run r ON r.id = s.run WHERE s.kind = 'train'")}
    equal(planned, found, "plan and run")


def in_sixteen_bits(bench):
    """Grown and certified in 16 bits, close to float32, and told wherever runs are."""
    device, db = bench.need_vulkan(), bench.new_db()
    spec = experiment(precision="bf16")
    spec["arms"] = {arm: spec["arms"][arm] for arm in ("base", "expand")}
    spec["arms"]["f16"] = {**spec["arms"]["base"], "precision": "f16"}
    spec["arms"]["f32"] = {**spec["arms"]["base"], "precision": "f32"}
    plan = bench.json("plan", bench.write(spec))
    equal({r["arm"]: r["precision"] for r in plan}, {"base": "bf16", "expand": "bf16", "f16": "f16", "f32": "f32"}, "plan")
    bench.run(spec, db, "--device", device).expect()
    equal(dict(select(db, "SELECT arm, precision FROM run")), {"base": "bf16", "expand": "bf16", "f16": "f16", "f32": "f32"}, "runs")
    loss = dict(select(db, "SELECT r.arm, m.value FROM metric m JOIN stage s ON s.id = m.stage JOIN run r ON r.id = s.run "
                           "WHERE m.name = 'loss' AND r.arm <> 'expand' ORDER BY m.step"))
    for arm in ("base", "f16"):
        check(0 < abs(loss[arm] - loss["f32"]) <= 0.02 * loss["f32"], f"losses {loss}")
    scales = select(db, "SELECT r.arm, min(m.value) FROM metric m JOIN stage s ON s.id = m.stage JOIN run r ON r.id = s.run "
                        "WHERE m.name = 'loss_scale' GROUP BY 1")
    equal([arm for arm, _ in scales], ["f16"], "arms with a loss scale")
    check(scales[0][1] >= 1, f"loss scale {scales}")
    kept = strict_json(bench("compare", "small", "--db", db, "--json").expect().out)
    expand, = [a for a in kept["arms"] if a["arm"] == "expand"]
    equal([(k["bit_identical"], k["certified"]) for k in expand["retention"]], [(True, True)], "retention of bf16")
    certificates = select(db, "SELECT certificate FROM stage WHERE certificate IS NOT NULL")
    check(len(certificates) == 2 and all('"precision":"bf16"' in c for c, in certificates), f"{certificates}")
    text = bench("runs", "--db", db).expect().out
    for part in ("<2> bf16", "<2,1> bf16", "<2> f16", "<2>  "):
        has(text, part)
    has(bench("compare", "small", "--db", db).expect().out, "<2,1> bf16")


def several_seeds(bench):
    db = bench.new_db()
    bench.run(experiment(name="seeds", seeds=[3, 1]), db).expect()
    equal(select(db, "SELECT count(*), count(DISTINCT seed) FROM run WHERE status = 'finished'"), [(8, 2)], "runs and seeds")
    equal(select(db, "SELECT count(*) FROM run r JOIN run p ON p.id = r.parent WHERE p.seed <> r.seed"), [(0,)], "parents of another seed")
    digests = {d for d, in select(db, "SELECT checkpoint_digest FROM stage s JOIN run r ON r.id = s.run WHERE r.arm = 'base' AND s.place = 0")}
    equal(len(digests), 2, "different models of different seeds")
    one = {k: v for k, v in checkpoints(db).items() if k[1] == 1}
    equal(one, checkpoints(finished_db(bench, "reference")), "seed 1 beside another seed and alone")


main([the_whole_job_on_the_reference, the_whole_job_on_vulkan, vulkan_and_reference_learn_alike, three_times_the_same_bits,
      modes_of_vulkan_change_no_bit, portable_kernels_do_the_job, the_validation_layer_has_nothing_to_say, every_shape_of_output,
      reading_needs_no_vulkan, the_second_run_skips_and_opens_no_device, fresh_runs_everything_again,
      an_edited_file_keeps_what_did_not_change, what_stands_on_other_bytes_runs_again, a_database_moves_with_its_files, the_plan_knows_the_memory, in_sixteen_bits, several_seeds])
