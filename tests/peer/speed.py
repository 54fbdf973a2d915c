#!/usr/bin/python3
"""Speed of colm against itself and against the PyTorch peer, in rounds, as one Markdown page.

Every round takes three looks, and every ratio is made within a round; the page gives medians of the rounds' ratios with
their smallest and largest. Single figures of shared machines mean little, ratios of one round do.

  chains    one colm process that makes a step of each case in turn, each against its neighbour: what growing and chains save
  threads   case a with one thread and with all of them, one process after the other
  peer      each case with colm, then PyTorch tuned (OpenMP OpenBLAS, spinning threads, jemalloc), then plain (as Debian installs it with libopenblas0)

    speed.py build/engine/cli/colm --out results/reference/speed.md
    speed.py build/engine/cli/colm --quick          does it work? a minute; its figures are for nobody

A round of everything takes about four minutes on two cores. --threads sets LP_NUM_THREADS of lavapipe and the peer's
threads alike. Run it on a quiet machine, with kernels in the cache: once before with --quick.
"""
import argparse, datetime, json, os, platform, re, shlex, statistics, subprocess, sys

here = os.path.dirname(os.path.abspath(__file__))
arch = platform.machine() + "-linux-gnu"
BLAS = f"/usr/lib/{arch}/openblas-openmp"
PLAIN_BLAS = f"/usr/lib/{arch}/openblas-pthread" # what libopenblas0 installs, whose threads are not PyTorch's
JEMALLOC = f"/usr/lib/{arch}/libjemalloc.so.2"
TUNED = dict(LD_LIBRARY_PATH=BLAS, OMP_WAIT_POLICY="active", LD_PRELOAD=JEMALLOC, MALLOC_CONF="dirty_decay_ms:-1,muzzy_decay_ms:-1")

WHAT = dict(a="dense 256, 6 layers", b="chains {4,4} of 256", c="chains {2,2,2,2} of 256", d="256 frozen + 64 trained",
            e="dense 512, 8 layers", f="dense 320, all trained", g="CoLM-Air {4,4} of 256")
WANTED = dict(tuned=dict(a=0.42, b=0.5, c=0.5, d=0.42, e=0.28), plain=dict(a=1.2, b=1.2, c=1.2, d=1.2))
CHAINS = (("d", "f", 2.2, "growing by 64 against training the grown width densely"), ("b", "a", 1.1, "chains {4,4} against dense"),
          ("c", "a", 1.2, "chains {2,2,2,2} against dense"), ("g", "b", 1.05, "CoLM-Air {4,4} against CoLM {4,4}"))
THREADS_WANTED, START_WANTED = 1.75, 1.5


def say(text):
    print(f"# {text}", file=sys.stderr, flush=True)


def run(command, env=None):
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        sys.exit(f"speed.py: {shlex.join(command)}: status {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


class Measured:
    """Everything that was measured: per name the figure of every round, in order."""

    def __init__(self):
        self.rounds = {}

    def add(self, name, figure):
        self.rounds.setdefault(name, []).append(figure)

    def median(self, name):
        return statistics.median(self.rounds[name]) if name in self.rounds else None

    def spread(self, name):
        """(median, smallest, largest) of the rounds; None where nothing was measured."""
        each = self.rounds.get(name)
        return each and (statistics.median(each), min(each), max(each))

    def ratio(self, above, below):
        """The same of the rounds' ratios."""
        one = Measured()
        for x, y in zip(self.rounds.get(above, []), self.rounds.get(below, [])): one.add(None, x / y)
        return one.spread(None)


def bench(a, letters, threads, *options):
    command = [a.colm, "bench", letters, "--json", "--seconds", str(a.seconds), "--batch", str(a.batch), "--context", str(a.context), *options]
    for name in ("device", "kernels", "precision"):
        if getattr(a, name): command += ["--" + name, getattr(a, name)]
    return json.loads(run(command, {**os.environ, "LP_NUM_THREADS": str(threads)}))


def peer(a, case, tuned):
    env = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    env.update(TUNED if tuned else dict(LD_LIBRARY_PATH=PLAIN_BLAS))
    command = [a.python, os.path.join(here, "colm_torch.py"), "--bench", case, "--secs", str(a.seconds), "--threads", str(a.threads),
               "--B", str(a.batch), "--T", str(a.context)]
    return float(re.search(r" (\d+) tok/s", run(command, env)).group(1))


def peer_version(a):
    """Of the peer, or None with what is missing said."""
    for need in (BLAS, PLAIN_BLAS, JEMALLOC):
        if "tuned" in a.peers and not os.path.exists(need):
            say(f"missing {need}: apt-get install libopenblas0-openmp libopenblas0-pthread libjemalloc2")
            return None
    done = subprocess.run([a.python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
    if done.returncode: say(f"{a.python} has no torch: apt-get install python3-torch python3-numpy")
    return None if done.returncode else done.stdout.strip()


def note(m, told):
    for key, value in told["ceilings"].items():
        if value: m.add(("ceiling", key), value)


def one_round(a, m):
    both = [c for c in "abcgdf" if c in a.cases]
    if "chains" in a.looks and len(both) > 1:
        told = bench(a, "".join(both), a.threads, "--interleave")
        note(m, told)
        for c in told["cases"]: m.add(("chains", c["case"]), c["tokens_per_s"])
        steps = {c["case"]: c["step_s"] for c in told["cases"]}
        for x, y, *_ in CHAINS:  # neighbours in time against each other, then the middle
            if x in steps and y in steps: m.add(("pairs", x, y), statistics.median(b / a for a, b in zip(steps[x], steps[y])))
    if "threads" in a.looks and "a" in a.cases and a.threads > 1:
        for threads in (1, a.threads):
            m.add(("threads", threads), bench(a, "a", threads)["cases"][0]["tokens_per_s"])
    for c in a.cases if "peer" in a.looks else "":
        told = bench(a, c, a.threads)
        note(m, told)
        for key in ("tokens_per_s", "gflop_per_s", "gb_per_s", "share", "ready_s", "first_step_s"):
            if told["cases"][0][key] is not None: m.add((key, c), told["cases"][0][key])
        for who in a.peers: m.add((who, c), peer(a, c, who == "tuned"))
        say(f"{c}: " + ", ".join(f"{who} {m.rounds[key, c][-1]:.0f}" for who, key in [("colm", "tokens_per_s")] + [(w, w) for w in a.peers]))


MISSING = "not measured"


def number(v, digits=0):
    return MISSING if v is None else f"{v:.{digits}f}"


def spread(r):
    return MISSING if r is None else f"{r[0]:.2f} ({r[1]:.2f} to {r[2]:.2f})"


def at_least(v):
    return "" if v is None else f"{v:g}"


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] + ["| " + " | ".join(r) + " |" for r in rows] + [""]


def machine():
    cpu = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read()) if os.path.exists("/proc/cpuinfo") else None
    system = re.search(r'PRETTY_NAME="?([^"\n]*)', open("/etc/os-release").read()) if os.path.exists("/etc/os-release") else None
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    return f"{len(os.sched_getaffinity(0))} processors, {cpu.group(1) if cpu else platform.machine()}, {memory} GiB; {system.group(1) if system else platform.system()}"


def commit():
    git = lambda *words: subprocess.run(["git", "-C", here, *words], capture_output=True, text=True).stdout.strip()
    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + (" with changes" if git("status", "--porcelain", "-uno") else "")


def page(a, m, version, told, devices):
    device = next((d for d in devices if d["name"] in told["device"]), dict(driver="unknown", type="unknown"))
    peers = {w: version and w in a.peers for w in ("tuned", "plain")}
    ceiling = lambda key: number(m.median(("ceiling", key)), 1)
    out = [f"# Speed of colm, {datetime.date.today():%-d %B %Y}", ""]
    if a.quick: out += ["**A quick trial of the script: these figures say nothing.**", ""]
    out += table(["", ""], [
        ["command", f"`{a.command}`"], ["commit", f"{commit()}; the program calls itself {told['version']}"], ["machine", machine()],
        ["device", f"{told['device']}; driver {device['driver']}; {a.threads} threads; precision {told['precision']}"],
        ["ceilings", f"{ceiling('gflop_per_s')} GFLOP/s multiplying and adding; copies {ceiling('memory_gb_per_s')} GB/s from memory, {ceiling('cache_gb_per_s')} GB/s in cache (medians of all runs)"],
        ["peer", f"PyTorch {version}, float32, {a.threads} threads; tuned: OpenMP OpenBLAS, spinning threads, jemalloc; plain: OpenBLAS with threads of its own, as libopenblas0 installs it" if version else MISSING]])
    out += [f"Whole training steps (forward, loss, backward, AdamW) of {a.batch} x {a.context} tokens, vocabulary 4096; rounds: {a.rounds}, of {a.seconds:g} s a case. "
            "Figures are medians; ratios are made within each round, and stand as median (smallest to largest) of the rounds. Above 1 is faster.", ""]
    out += ["## Against the peer", ""]
    rows = []
    for c in WHAT:
        row = [c, WHAT[c], number(m.median(("tokens_per_s", c)))]
        for who in ("tuned", "plain"):
            row += [number(m.median((who, c))) if peers[who] else MISSING, spread(m.ratio(("tokens_per_s", c), (who, c))), at_least(WANTED[who].get(c))]
        rows.append(row)
    out += table(["case", "", "colm tokens/s", "PyTorch tuned", "colm/tuned", "wanted", "PyTorch plain", "colm/plain", "wanted"], rows)
    out += ["## Against itself", ""]
    rows = [[f"{x}/{y}", why, spread(m.spread(("pairs", x, y))), f"{wanted:g}"] for x, y, wanted, why in CHAINS]
    rows.append([f"{a.threads} threads/1", "case a", spread(m.ratio(("threads", a.threads), ("threads", 1))), f"{THREADS_WANTED:g}"])
    out += table(["ratio", "", "tokens/s", "wanted"], rows)
    out += ["## Against the device", ""]
    rows = [[c, number(m.median(("gflop_per_s", c)), 1), number(m.median(("gb_per_s", c)), 1), number(m.median(("share", c)), 2),
             number(m.median(("ready_s", c)), 2), number(m.median(("first_step_s", c)), 2)] for c in WHAT]
    out += table(["case", "GFLOP/s", "GB/s", "share of ceilings", f"s to the first step (wanted < {START_WANTED:g})", "first step s"], rows)
    out += ["A share of ceilings is the time that a step's operations and bytes take at the ceilings above, call by call, over the time of the step. "
            "Seconds to the first step: opening the device, weights, graph, kernels from the cache.", ""]
    if device["type"] == "cpu": out += ["GPUs, and their matrix products against a vendor's BLAS: not measured.", ""]
    out += ["## Every round", ""]
    names = [k for k in m.rounds if k[0] in ("tokens_per_s", "tuned", "plain", "chains", "threads")]
    label = lambda k: {"tokens_per_s": f"{k[1]}: colm", "chains": f"{k[1]} in turn: colm", "threads": f"a: colm, {k[1]} threads"}.get(k[0], f"{k[1]}: {k[0]}")
    out += table(["tokens/s", *map(str, range(1, a.rounds + 1))], [[label(k), *(f"{v:.0f}" for v in m.rounds[k])] for k in names])
    return "\n".join(out)


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("colm")
    ap.add_argument("--cases", default="abcdefg", help="letters; all")
    ap.add_argument("--looks", default="chains,threads,peer", help="which of chains,threads,peer; all")
    ap.add_argument("--peers", default="tuned,plain", help="which of tuned,plain; both")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--seconds", type=float, default=4, help="of steps a case and round; 4")
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--context", type=int, default=256)
    ap.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of all processors that may be used")
    ap.add_argument("--device", help="as in `colm devices`")
    ap.add_argument("--kernels", help="a kernel class")
    ap.add_argument("--precision", help="of colm: f32, bf16 or f16; the peer's is float32")
    ap.add_argument("--python", default="/usr/bin/python3", help="with the peer's torch")
    ap.add_argument("--out", help="the page's file; else standard output")
    ap.add_argument("--quick", action="store_true", help="one round of tiny steps")
    a = ap.parse_args()
    a.command = shlex.join(["tests/peer/speed.py", *sys.argv[1:]])
    a.looks, a.peers = ([w for w in words.split(",") if w] for words in (a.looks, a.peers))
    if a.quick: a.rounds, a.seconds, a.batch, a.context = 1, 0.2, 1, 64
    for words, known, what in ((a.cases, WHAT, "case"), (a.looks, ("chains", "threads", "peer"), "look"), (a.peers, ("tuned", "plain"), "peer")):
        for w in words:
            if w not in known: ap.error(f"no {what} {w!r}; there are {', '.join(known)}")
    if a.rounds < 1: ap.error(f"{a.rounds} rounds: expected 1 or more")
    return a


def main():
    a = arguments()
    version = peer_version(a) if a.peers else None
    if not version: a.peers = []
    m = Measured()
    devices = json.loads(run([a.colm, "devices", "--json"]))
    told = bench(argparse.Namespace(**{**vars(a), "seconds": 0.01}), a.cases[0], a.threads)  # and warms the kernels' cache
    for r in range(a.rounds):
        say(f"round {r + 1} of {a.rounds}")
        one_round(a, m)
    text = page(a, m, version, told, devices)
    if a.out:
        with open(a.out, "w") as f: f.write(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
