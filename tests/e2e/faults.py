"""Faults asked for with COLM_DEBUG: one line, the right exit status, the run failed with its reason, and a good run afterwards."""
from bench import CHECK, USAGE, check, equal, experiment, has, main, select, statuses

MEMORY, DEVICE = 4, 6  # colm_status
TINY = experiment(tokens=256, arms={"base": {"stages": [{"train": {"on": "sea", "tokens": 256}}]}})
LOST = "was lost in vkQueueSubmit"


def fails(bench, debug, code, *parts, device=None):
    """The run ends so, its database says so, and without the fault the same experiment finishes there."""
    device = device or bench.need_vulkan()
    db = bench.new_db()
    result = bench.run(TINY, db, "--device", device, env={"COLM_DEBUG": debug}).expect(code)
    # Told as a warning when the arm fails, and as the end of an experiment that has no other.
    line, = set(result.err.splitlines())
    for part in ("colm: base/1: stages[0] train: ", *parts):
        has(line, part)
    equal(statuses(db), {"base": "failed"}, f"status with {debug}")
    for table in ("run", "stage"):
        (status, reason), = select(db, f"SELECT status, reason FROM {table}")
        equal(status, "failed", f"status of the {table} with {debug}")
        check(reason and all(p in reason for p in parts), f"reason {reason!r} of the {table} does not say {parts}: {result.err}")
    equal(select(db, "SELECT count(*) FROM stage WHERE checkpoint IS NOT NULL"), [(0,)], "checkpoints of a failed run")
    bench.run(TINY, db, "--device", device).expect()
    equal(statuses(db), {"base": "finished"}, "status without the fault")


def memory_that_runs_out(bench):
    fails(bench, "alloc-fail=3", MEMORY, "could not be had")


def memory_that_is_too_small(bench):
    fails(bench, "alloc-cap=100000", MEMORY, "100000")


def a_device_that_is_lost(bench):
    fails(bench, "device-lost=2", DEVICE, LOST)


def a_gradient_that_is_no_number(bench):
    fails(bench, "nan-grad=3", CHECK, "step 2: ", "gradient norm nan")


def on_the_reference_too(bench):
    fails(bench, "nan-grad=1", CHECK, "step 0: ", "gradient norm nan", device="reference")


def a_barrier_too_few(bench):
    fails(bench, "hazards,drop-barrier=7", 9, "without a barrier")


def watched_runs_give_the_same_result(bench):
    device = bench.need_vulkan()
    plain, watched = bench.new_db(), bench.new_db()
    bench.run(TINY, plain, "--device", device).expect()
    bench.run(TINY, watched, "--device", device, env={"COLM_DEBUG": "guard,poison,non-coherent,hazards"}).expect()
    digest = "SELECT checkpoint_digest FROM stage"
    equal(select(watched, digest), select(plain, digest), "digest of the checkpoint")


def wrong_words(bench):
    for device in ("reference", bench.need_vulkan()):
        result = bench.run(TINY, bench.new_db(), "--device", device, env={"COLM_DEBUG": "guard,gard"})
        result.one_line(USAGE, 'COLM_DEBUG: no switch "gard"', "no-texels", "drop-barrier=N")
    result = bench.run(TINY, bench.new_db(), env={"COLM_DEBUG": "alloc-fail=1"})
    result.one_line(USAGE, "alloc-fail acts on Vulkan devices")


main([memory_that_runs_out, memory_that_is_too_small, a_device_that_is_lost, a_gradient_that_is_no_number, on_the_reference_too,
     a_barrier_too_few, watched_runs_give_the_same_result, wrong_words])
