#!/bin/sh
# clang-format, clang-tidy and cppcheck over the tree as tests, in TAP. A tool that is not installed is a skip.
#
#     tools.sh ROOT BUILD      BUILD holds compile_commands.json
set -u
root=$1 build=$2
cd "$root" || exit 1
sources=$(find engine -name '*.c' ! -path engine/base/err.c | LC_ALL=C sort) # err.c defines what analysis.h describes
number=0 bad=0

# judge NAME STATUS OUTPUT
judge() {
    number=$((number + 1))
    if [ "$2" -eq 0 ]; then
        echo "ok $number - $1"
    else
        printf '%s\n' "$3" | head -n 60 | sed 's/^/# /'
        echo "not ok $number - $1"
        bad=1
    fi
}

# has TOOL: or says that it is skipped.
has() {
    command -v "$1" >/dev/null 2>&1 && return
    number=$((number + 1))
    echo "ok $number - $1 # SKIP $1 is not installed"
    return 1
}

# Releases of clang-format disagree about macros: the tree is written by the one of Debian 12.
if has clang-format; then
    version=$(clang-format --version | sed 's/.*version \([0-9]*\).*/\1/')
    if [ "$version" -eq 14 ]; then
        output=$(find engine shaders tests -name '*.[ch]' | LC_ALL=C sort | xargs clang-format --dry-run --Werror 2>&1)
        judge "clang-format would change nothing" $? "$(printf '%s\n' "$output" | sed -n 's/: error:.*//p' | cut -d : -f 1,2 | uniq)"
    else
        number=$((number + 1))
        echo "ok $number - clang-format # SKIP this is clang-format $version, the tree is formatted by 14"
    fi
fi
if has clang-tidy; then
    output=$(printf '%s\n' "$sources" | xargs -n 1 -P "$(nproc)" clang-tidy -p "$build" --quiet \
        --extra-arg=-D_GNU_SOURCE= --extra-arg=-include --extra-arg="$PWD/tests/lint/analysis.h" 2>&1)
    judge "clang-tidy finds nothing" $? "$(printf '%s\n' "$output" | grep -E 'error:|warning:' | sed "s:.*/engine/:engine/:" | sort -u)"
fi
if has cppcheck; then
    # What follows values through a function is left to clang-tidy, which does it better.
    output=$(printf '%s\n' "$sources" | xargs cppcheck --std=c11 --quiet --inline-suppr --error-exitcode=1 -I . -j "$(nproc)" \
        --enable=warning,performance,portability --suppress=missingInclude --suppress=missingIncludeSystem \
        --suppress=normalCheckLevelMaxBranches --suppress=uninitvar --suppress=uninitStructMember \
        --suppress=invalidLifetime --suppress=invalidFunctionArg --suppress=invalidPointerCast \
        --suppress=ignoredReturnValue --suppress=nullPointerArithmeticRedundantCheck --template='{file}:{line}: {severity}: {message} [{id}]' 2>&1)
    judge "cppcheck finds nothing" $? "$output"
fi
echo "1..$number"
exit $bad
