#!/usr/bin/env python3
"""Counts test cases, not programs, in what `meson test` logged, and closes with `N passed, N failed, N skipped`.

    tally.py [LABEL:BUILD[:EXCLUDED-SUITE,...] | --failed WHAT]...

Each BUILD holds meson-logs/cases.json. A program that crashes, times out, breaks the TAP protocol, counts wrongly or
is missing from the log is a failed case of its own, and a skipped case is never a passed one. --failed adds a failure
met before any test ran (a build). The exit status is 0 only if something passed and nothing failed.
"""
import json
import os
import re
import subprocess
import sys

CASE = re.compile(r"(not )?ok\b\s*(\d+)?\s*(?:-\s*)?([^#]*)(?:#\s*(\S+)\s*(.*))?$")
PLAN = re.compile(r"1\.\.(\d+)\s*(?:#\s*skip\S*\s*(.*))?$", re.I)


class Tally:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, [], []

    def add_tap(self, name, entry):
        """One program that speaks TAP: entry is its record in meson's log."""
        plan, seen, bad, notes = None, 0, 0, []
        for line in entry.get("stdout", "").splitlines():
            if line.startswith("#"):
                notes.append(line)
                continue
            if line.startswith("Bail out!"):
                notes.append(line)
                break
            if match := PLAN.match(line):
                plan = int(match[1])
                if plan == 0 and match[2]:
                    self.skipped.append((name, match[2]))
                elif plan == 0:
                    self.failed.append((f"{name}: ran no case and gave no reason", []))
            elif match := CASE.match(line):
                seen += 1
                case = f"{name}: {match[3].strip() or match[2] or seen}"
                if match[4] and match[4].upper().startswith("SKIP") and not match[1]:
                    self.skipped.append((case, match[5].strip() or "no reason given"))
                elif match[1]:
                    bad += 1
                    self.failed.append((case, notes[-20:]))
                else:
                    self.passed += 1
                notes = []
        # What is left over belongs to no case: a crash, a wrong count, an exit status that no failed case explains.
        code, result = entry.get("returncode", 0), entry.get("result", "?")
        tail = notes[-4:] + entry.get("stderr", "").strip().splitlines()[-12:]
        if result in ("TIMEOUT", "INTERRUPT"):
            self.failed.append((f"{name}: {result.lower()} after {entry.get('duration', 0):.0f} s", tail))
        elif code < 0:
            self.failed.append((f"{name}: killed by signal {-code} after {seen} cases", tail))
        elif plan is None or plan != seen:
            self.failed.append((f"{name}: planned {plan} cases, reported {seen}, exit status {code}", tail))
        elif code != 0 and not bad:
            self.failed.append((f"{name}: exit status {code} though no case failed", tail))
        elif result not in ("OK", "SKIP") and not bad:
            self.failed.append((f"{name}: {result.lower()}", tail))

    def add_program(self, name, entry):
        """One program judged by its exit status."""
        if entry.get("result") == "OK":
            self.passed += 1
        elif entry.get("result") == "SKIP":
            self.skipped.append((name, "exit status 77"))
        else:
            tail = (entry.get("stdout", "") + entry.get("stderr", "")).strip().splitlines()[-12:]
            self.failed.append((f"{name}: {entry.get('result', '?').lower()}", tail))

    def add_build(self, label, build, excluded):
        log = os.path.join(build, "meson-logs", "cases.json")
        entries = {}
        if os.path.exists(log):
            with open(log, encoding="utf-8", errors="replace") as f:
                entries = {tuple(e["command"]): e for e in map(json.loads, f)}
        known = json.loads(subprocess.run(["meson", "introspect", "--tests", build], check=True, stdout=subprocess.PIPE).stdout)
        for test in known:
            suites = {s.split(":", 1)[-1] for s in test["suite"]}
            if suites & excluded:
                continue
            name = f"{label}{test['name']}"
            entry = entries.get(tuple(test["cmd"]))
            if entry is None:
                self.failed.append((f"{name}: did not run", []))
            elif test["protocol"] == "tap":
                self.add_tap(name, entry)
            else:
                self.add_program(name, entry)


def main(args):
    tally, rest = Tally(), iter(args)
    for arg in rest:
        if arg == "--failed":
            tally.failed.append((next(rest), []))
            continue
        label, build, excluded = (arg.split(":") + [""])[:3]
        tally.add_build(label, build, set(filter(None, excluded.split(","))))
    for name, why in tally.skipped:
        print(f"skipped  {name} ({why})")
    for name, lines in tally.failed:
        print(f"FAILED   {name}")
        for line in lines:
            print(f"         {line}")
    print(f"{tally.passed} passed, {len(tally.failed)} failed, {len(tally.skipped)} skipped")
    return 0 if tally.passed and not tally.failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
