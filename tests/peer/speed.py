#!/usr/bin/python3
"""Speed of colm against the PyTorch peer, interleaved in one run: each round measures every case with colm, then with the
peer tuned (OpenMP OpenBLAS, spinning threads, jemalloc) and plain (as installed). Prints medians over the rounds and
their ratios as a Markdown table; single figures on shared machines mean little, ratios of one run do.

    speed.py COLM [--cases abcdef] [--rounds 5] [--seconds 4] [--device NAME] [--plain]
"""
import argparse, json, os, platform, re, statistics, subprocess, sys

here = os.path.dirname(os.path.abspath(__file__))
arch = platform.machine() + "-linux-gnu"
BLAS = f"/usr/lib/{arch}/openblas-openmp"
JEMALLOC = f"/usr/lib/{arch}/libjemalloc.so.2"


def colm(a, case):
    cmd = [a.colm, "bench", case, "--json"] + (["--device", a.device] if a.device else [])
    out = subprocess.run(cmd, check=True, capture_output=True, text=True).stdout
    return json.loads(out)[0]["tokens_per_s"]


def peer(a, case, tuned):
    env = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    if tuned:
        for need in (BLAS, JEMALLOC):
            if not os.path.exists(need):
                sys.exit(f"missing {need}: install python3-torch python3-numpy libopenblas0-openmp libjemalloc2")
        env.update(LD_LIBRARY_PATH=BLAS, OMP_WAIT_POLICY="active", LD_PRELOAD=JEMALLOC,
                   MALLOC_CONF="dirty_decay_ms:-1,muzzy_decay_ms:-1")
    cmd = ["/usr/bin/python3", os.path.join(here, "colm_torch.py"), "--bench", case, "--secs", str(a.seconds)]
    out = subprocess.run(cmd, check=True, capture_output=True, text=True, env=env).stdout
    return float(re.search(r" (\d+) tok/s", out).group(1))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("colm")
    ap.add_argument("--cases", default="abcdef")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--seconds", type=float, default=4)
    ap.add_argument("--device")
    ap.add_argument("--plain", action="store_true", help="also the peer as installed")
    a = ap.parse_args()
    runs = [("colm", lambda c: colm(a, c)), ("tuned", lambda c: peer(a, c, True))]
    if a.plain: runs.append(("plain", lambda c: peer(a, c, False)))
    got = {(who, c): [] for who, _ in runs for c in a.cases}
    for r in range(a.rounds):
        for c in a.cases:
            for who, measure in runs:
                got[who, c].append(measure(c))
                print(f"# round {r + 1} {c} {who}: {got[who, c][-1]:.0f} tokens/s", file=sys.stderr, flush=True)
    mid = {k: statistics.median(v) for k, v in got.items()}
    ratio = lambda c, who: statistics.median(x / y for x, y in zip(got["colm", c], got[who, c]))
    print("| case | colm tokens/s | PyTorch tuned | colm/tuned |" + (" PyTorch plain | colm/plain |" if a.plain else ""))
    print("|---|---|---|---|" + ("---|---|" if a.plain else ""))
    for c in a.cases:
        row = f"| {c} | {mid['colm', c]:.0f} | {mid['tuned', c]:.0f} | {ratio(c, 'tuned'):.2f} |"
        if a.plain: row += f" {mid['plain', c]:.0f} | {ratio(c, 'plain'):.2f} |"
        print(row)
    for x, y in (("d", "f"), ("b", "a"), ("c", "a")):
        if x in a.cases and y in a.cases:
            pairs = zip(got["colm", x], got["colm", y])
            print(f"\n{x}/{y} of colm: {statistics.median(p / q for p, q in pairs):.2f}")


main()
