#!/bin/sh
# Installs what is missing, builds, runs the tests, and closes with `N passed, N failed, N skipped` (cases, not programs).
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/setup.sh

usage() {
    cat <<'TXT'
sh tests/run.sh [--all] [--no-peer] [--build DIR]
  --all        also the slow tests, a second build under the address and undefined-behaviour sanitizers,
               clang-format, clang-tidy and cppcheck
  --no-peer    do not install PyTorch: tests against the peer are skipped where it is absent
  --build DIR  build in DIR instead of build/ (the sanitized build goes to DIR-sanitized)
TXT
}

all=no peer=yes build=build
while [ $# -gt 0 ]; do
    case $1 in
    --all) all=yes ;;
    --no-peer) peer=no ;;
    --build)
        [ $# -ge 2 ] || die "tests/run.sh: --build needs a folder"
        build=$2
        shift
        ;;
    -h | --help) usage; exit 0 ;;
    *) complain "tests/run.sh: unknown argument $1"; usage >&2; exit 2 ;;
    esac
    shift
done

# shellcheck disable=SC2086 # lists of names
{
    need_packages "building and testing colm" $build_packages $test_packages
    [ $peer = no ] || want_packages "the PyTorch peer" $peer_packages
    [ $all = no ] || want_packages "the lint tools" $lint_packages
}

preload= # a library for the tests to start with
tally=   # arguments for tests/tally.py, one a line
note() { tally="$tally$1
"; }

# test_build LABEL DIR SECONDS-FACTOR EXCLUDED-SUITES [MESON OPTION...]
test_build() {
    label=$1 dir=$2 factor=$3 excluded=$4
    shift 4
    say "Building in $dir"
    if ! configure_build "$dir" "$@" || ! ninja -C "$dir" --quiet; then
        note --failed
        note "${label}the build in $dir"
        return
    fi
    rm -f "$dir/meson-logs/cases.json"
    without=
    for suite in $(printf %s "$excluded" | tr , ' '); do without="$without --no-suite $suite"; done
    # shellcheck disable=SC2086 # a list of options
    LD_PRELOAD=$preload meson test -C "$dir" --no-rebuild --logbase cases --timeout-multiplier "$factor" --print-errorlogs $without
    note "$label:$dir:$excluded"
}

if [ $all = no ]; then
    test_build '' "$build" 4 slow
else
    test_build '' "$build" 4 ''
    # Only leaks of ours count: leaks.txt names the libraries whose leaks do not, keep_libraries.c keeps them nameable.
    export ASAN_OPTIONS="detect_leaks=1:detect_stack_use_after_return=1:verify_asan_link_order=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
    export LSAN_OPTIONS="suppressions=$PWD/tests/lint/leaks.txt:print_suppressions=0${LSAN_OPTIONS:+:$LSAN_OPTIONS}"
    export UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}"
    mkdir -p "$build-sanitized"
    preload=$(cd "$build-sanitized" && pwd)/tests/lint/keep_libraries.so
    test_build 'sanitized ' "$build-sanitized" 10 slow,lint -Dbuildtype=debugoptimized \
        -Db_sanitize=address,undefined -Dc_args=-fno-omit-frame-pointer
fi

IFS='
'
# shellcheck disable=SC2086 # one argument a line
python3 tests/tally.py $tally
