"""`colm bench`: that its numbers belong together. How large they are is nobody's business here."""
import math

import argparse
import importlib.util
import os

from bench import INPUT, USAGE, check, equal, has, main, strict_csv, strict_json

TINY = ["--batch", "1", "--context", "16", "--seconds", "0.01"]


def near(a, b, what, limit=1e-9):
    if not (abs(a - b) <= limit * max(abs(a), abs(b))):
        raise AssertionError(f"{what}: {a} against {b}")


def positive(row, *keys):
    for key in keys:
        check(isinstance(row[key], (int, float)) and row[key] > 0 and math.isfinite(row[key]), f"{key} is {row[key]!r}")


def bench_json(bench, *args):
    bench.need_vulkan()
    return strict_json(bench("bench", *args, *TINY, "--json").expect().out)


def cases_and_ceilings(bench):
    told = bench_json(bench, "gb", "--interleave")
    equal(sorted(told), ["cases", "ceilings", "device", "operations", "precision", "version"], "members")
    equal(told["precision"], "f32", "precision")
    positive(told["ceilings"], "gflop_per_s", "memory_gb_per_s", "cache_gb_per_s", "cache_bytes")
    equal(told["operations"], None, "operations that nobody asked for")
    equal([c["case"] for c in told["cases"]], ["g", "b"], "cases in the order of their letters")
    for c in told["cases"]:
        positive(c, "tokens_per_s", "median_s", "best_s", "gflop", "gflop_per_s", "gb_per_s", "share", "memory_bytes", "ready_s",
                 "first_step_s", "steps")
        equal(c["tokens"], 16, "tokens of a step")
        near(c["tokens_per_s"] * c["median_s"], 16, "tokens")
        near(c["gflop_per_s"] * c["median_s"], c["gflop"], "GFLOP")
        equal(len(c["step_s"]), c["steps"], "times of steps")
        equal(min(c["step_s"]), c["best_s"], "the best of them")
        check(c["best_s"] <= c["median_s"] <= max(c["step_s"]) and c["steps"] >= 5, f"steps of {c['step_s']} s, median {c['median_s']}")
    g, b = told["cases"]
    check(g["gflop"] < b["gflop"], "CoLM-Air has fewer linears than CoLM")


def a_profile_adds_up(bench):
    told = bench_json(bench, "b", "--shapes")
    (timing,), rows = told["timing"], told["operations"]
    has(timing["method"], "timestamps")
    rest = [r for r in rows if r["op"] == "(unaccounted)"]
    near(sum(r["seconds"] for r in rows if r not in rest), timing["calls_s"], "seconds of all calls")
    near(timing["calls_s"] + timing["unaccounted_s"], timing["step_s"], "a step")
    near(rest[0]["seconds"], timing["unaccounted_s"], "what no call accounts for", 1e-6)
    near(sum(r["of_step"] for r in rows), 1, "shares", 1e-6)
    check(timing["unaccounted_s"] > -1e-3, f"calls take longer than the step that they are in: {timing}")
    ops = {r["op"] for r in rows}
    check({"attn", "attn_dq", "norm", "swiglu", "xent_grad", "adamw"} <= ops, f"only {ops}")
    for r in rows:
        check(r in rest or r["seconds"] >= 0 and r["calls"] >= 1 and r["shape"], f"{r}")
    linears = [(r["op"], r["shape"]) for r in rows if r["op"].startswith("linear")]
    check(len(linears) > 3 and len(set(linears)) == len(linears), f"shapes of linears: {linears}")


def operations_alone(bench):
    told = bench_json(bench, "b", "--alone", "--precision", "bf16")
    equal(told["precision"], "bf16", "precision")
    check("cast" in {r["op"] for r in told["operations"]}, "16 bits are made by casts")
    check(all(r["shape"] and r["calls"] >= 1 for r in told["operations"]), "shapes and calls")
    check("(unaccounted)" not in {r["op"] for r in told["operations"]}, "alone there is no step to account for")
    near(sum(r["seconds"] for r in told["operations"]), told["timing"][0]["calls_s"], "seconds of all calls")
    equal(told["timing"][0]["step_s"], None, "a step that was not profiled")
    for r in told["operations"]:
        near(r["call_s"] * r["calls"], r["seconds"], f"calls of {r['op']}")


def for_people_and_in_csv(bench):
    bench.need_vulkan()
    text = bench("bench", "b", *TINY, "--profile", env={"COLM_DEBUG": "no-timestamps"}).expect().out
    for part in ("device: ", "ceilings: ", " GB/s from memory", "b: step ", "unaccounted", "attn_dkv",
                 "each call waited for alone, for there are no timestamps"):
        has(text, part)
    rows = strict_csv(bench("bench", "b", *TINY, "--csv").expect().out)
    equal([r["case"] for r in rows], ["b"], "rows")
    positive({k: float(rows[0][k]) for k in ("tokens_per_s", "share", "ready_s")}, "tokens_per_s", "share", "ready_s")


def ratios_are_of_rounds(bench):
    """The page of tests/peer/speed.py: ratios within each round, and nothing said of what was not measured."""
    path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "peer", "speed.py")
    spec = importlib.util.spec_from_file_location("peer_speed", path)
    speed = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(speed)
    m = speed.Measured()
    for d, f in ((30, 10), (20, 10), (90, 15)):
        m.add(("pairs", "d", "f"), d / f)
        m.add(("tokens_per_s", "a"), d)
        m.add(("tuned", "a"), 2 * d)
    equal(m.ratio(("tuned", "a"), ("tokens_per_s", "a")), (2, 2, 2), "ratios")
    equal(m.spread(("pairs", "d", "f")), (3, 2, 6), "median, smallest and largest")
    equal(m.ratio(("tuned", "a"), ("tokens_per_s", "b")), None, "a ratio to what was not measured")
    a = argparse.Namespace(quick=False, command="speed.py", threads=2, batch=8, context=256, rounds=3, seconds=4, peers=["tuned"])
    told = {"device": "cpu llvm", "version": "0", "precision": "f32"}
    page = speed.page(a, m, "1.13", told, [{"name": "llvm", "driver": "Mesa", "type": "cpu"}])
    has(page, "| d/f | growing by 64 against training the grown width densely | 3.00 (2.00 to 6.00) | 2.2 |")
    has(page, "| b/a | chains {4,4} against dense | not measured | 1.1 |")
    has(page, "| 2 threads/1 | case a | not measured | 1.75 |")
    has(page, "| a | dense 256, 6 layers | 30 | 60 | 0.50 (0.50 to 0.50) | 0.42 | not measured | not measured | 1.2 |")
    has(page, "| e | dense 512, 8 layers | not measured | not measured | not measured | 0.28 |")
    has(page, "vendor's BLAS: not measured")


def mistakes(bench):
    bench("bench", "axz").one_line(INPUT, 'no case "x" in "axz"', "there are abcdefg")
    bench("bench", "").one_line(INPUT, "no case is named", "abcdefg")
    bench("bench", "a", "--alone", "--profile").one_line(USAGE, "alone", "one of them at a time")
    bench("bench", "a", "--precision", "f8").one_line(INPUT, 'no precision "f8"', "bf16 and f16")
    bench("bench", "a", "--batch", "1.5").one_line(USAGE, "--batch 1.5", "whole")
    for option in ("--batch", "--context", "--seconds"):
        for number in ("0", "-1", "nan", "much", "1e99", ""):
            bench("bench", "a", f"{option}={number}").one_line(USAGE, option)
    if bench("devices").code == 0:
        bench("bench", "a", "--context", "5000").one_line(INPUT, "case a", "5000", "1024")


main([cases_and_ceilings, a_profile_adds_up, operations_alone, for_people_and_in_csv, ratios_are_of_rounds, mistakes])
