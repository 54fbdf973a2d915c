"""The selftest as its users meet it; with --others on drivers unlike the first: SwiftShader, and lavapipe with 4 lanes."""
import os
import shutil
import subprocess
import sys

from bench import CHECK, INPUT, Skip, check, equal, experiment, has, main, select, strict_csv, strict_json

DEVICE = 6  # colm_status
SHADERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "shaders")
FOUR_LANES = {"LP_NATIVE_VECTOR_WIDTH": "128"}
SPEC = experiment()
SPEC["arms"] = {arm: SPEC["arms"][arm] for arm in ("base", "expand")}
for precision in ("bf16", "f16"):
    SPEC["arms"]["base_" + precision] = {**SPEC["arms"]["base"], "precision": precision}
    SPEC["arms"]["expand_" + precision] = {**SPEC["arms"]["expand"], "precision": precision, "from": "base_" + precision}


def the_selftest_passes_and_says_what_it_did(bench):
    device = bench.need_vulkan()
    result = bench("selftest", "--device", device, "--json").expect()
    equal(result.err, "", "warnings")
    rows = strict_json(result.out)
    equal({tuple(r) for r in rows}, {("op", "variant", "dtype", "shape", "error", "limit", "pass", "note")}, "members of the rows")
    check(len({r["op"] for r in rows}) >= 28, "operations are missing")
    equal({r["dtype"] for r in rows}, {"f32", "bf16", "f16"}, "storages")
    narrow = [{r["op"] for r in rows if r["dtype"] == t} for t in ("bf16", "f16")]
    check(narrow[0] == narrow[1] and len(narrow[0]) >= 21, "operations are missing in 16 bits")
    check(all(r["pass"] is True and r["error"] <= r["limit"] for r in rows), "a row did not pass")
    of_one = strict_csv(bench("selftest", "--device", device, "--kernels", "portable", "--csv").expect().out)
    equal({r["variant"] for r in of_one}, {"portable"}, "classes")
    bench("selftest", "--device", "reference").one_line(INPUT, "reference")


def a_device_with_a_wrong_kernel_is_refused(bench):
    device = bench.need_vulkan()
    shaders = bench.path("shaders")
    shutil.copytree(SHADERS, shaders)
    with open(os.path.join(shaders, "add.comp")) as f:
        text = f.read()
    check(text.count(") + LOAD4") == 1, "add.comp is not what this test thinks")
    with open(os.path.join(shaders, "add.comp"), "w") as f:
        f.write(text.replace(") + LOAD4", ") - LOAD4"))
    wrong = ["selftest", "--device", device, "--kernels", "portable"]
    result = bench(*wrong, env={"COLM_SHADERS": shaders})
    equal(result.code, CHECK, "exit status")
    has(result.err, "failed\n")
    bad = {line.split()[0] for line in result.out.splitlines() if " no " in line}
    equal(bad, {"add"}, "operations that failed")
    bench.run(SPEC, bench.new_db(), "--device", device).one_line(DEVICE, "colm selftest", "add", "--unsafe-device")
    bench.run(experiment(), bench.new_db(), "--device", device, "--unsafe-device").expect()
    bench(*wrong).expect()
    bench.run(experiment(), bench.new_db(), "--device", device).expect()


def swiftshader(bench):
    """The environment that makes SwiftShader the only driver, from Debian's chromium-common, unpacked and not installed."""
    folder, icd = bench.path("swiftshader"), bench.path("swiftshader.json")
    library = os.path.join(folder, "usr/lib/chromium/libvk_swiftshader.so")
    if not os.path.exists(library):
        os.makedirs(folder, exist_ok=True)
        for tool in ("apt-get", "dpkg-deb"):
            if not shutil.which(tool):
                raise Skip(f"SwiftShader comes in a Debian package, and there is no {tool} here")
        got = subprocess.run(["apt-get", "-qq", "-o", "APT::Sandbox::User=", "download", "chromium-common"], cwd=folder, capture_output=True, text=True)
        package = [f for f in os.listdir(folder) if f.endswith(".deb")]
        if got.returncode or not package:
            raise Skip("the package chromium-common with SwiftShader could not be had: " + " ".join(got.stderr.split())[-200:])
        subprocess.run(["dpkg-deb", "-x", package[0], "."], cwd=folder, check=True)
        if not os.path.exists(library):
            raise Skip("this chromium-common holds no SwiftShader")
    with open(icd, "w") as f:
        f.write('{"file_format_version": "1.0.0", "ICD": {"library_path": "%s", "api_version": "1.1.0"}}\n' % library)
    return {"VK_DRIVER_FILES": icd, "VK_ICD_FILENAMES": icd}


def lavapipe_with_four_lanes(bench):
    bench.need_vulkan()
    devices = strict_json(bench("devices", "--json", env=FOUR_LANES).expect().out)
    if devices[0]["subgroup"] != 4:
        raise Skip(f"{devices[0]['name']} does not heed LP_NATIVE_VECTOR_WIDTH")
    return FOUR_LANES


def losses(db):
    return select(db, "SELECT r.arm, s.place, m.step, m.value FROM metric m JOIN stage s ON s.id = m.stage JOIN run r ON r.id = s.run "
                      "WHERE m.name = 'loss' ORDER BY 1, 2, 3")


def passes_and_learns_alike(bench, env):
    """On a driver with subgroups of 4, for which the kernels of "cpu" are not made; a CPU device takes the portable ones."""
    device = strict_json(bench("devices", "--json", env=env).expect().out)[0]
    equal((device["usable"], device["subgroup"]), (True, 4), "usable, and lanes")
    has(bench("selftest", "--kernels", "portable", env=env).expect().out, "\n0 of ")
    bench("selftest", "--kernels", "cpu", env=env).one_line(INPUT, "8 lanes")
    here, usual = bench.new_db(), bench.new_db()
    bench.run(SPEC, here, "--device", device["uuid"], env=env).expect()
    bench.run(SPEC, usual, "--device", bench.need_vulkan()).expect()
    one, two = losses(here), losses(usual)
    equal([row[:3] for row in one], [row[:3] for row in two], "places of losses")
    equal(len({row[0] for row in one}), 6, "arms")
    for a, b in zip(one, two):
        limit = 1e-2 if a[0].endswith("16") else 1e-4
        check(abs(a[3] - b[3]) <= limit * abs(b[3]), f"losses {a} and {b}")


def swiftshader_passes_and_learns_alike(bench):
    passes_and_learns_alike(bench, swiftshader(bench))


def four_lanes_pass_and_learn_alike(bench):
    env = lavapipe_with_four_lanes(bench)
    passes_and_learns_alike(bench, env)
    has(bench("selftest", "--kernels", "gpu", env=env).expect().out, "\n0 of ")


main([swiftshader_passes_and_learns_alike, four_lanes_pass_and_learn_alike] if "--others" in sys.argv else
     [the_selftest_passes_and_says_what_it_did, a_device_with_a_wrong_kernel_is_refused])
