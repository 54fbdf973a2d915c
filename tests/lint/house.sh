#!/bin/sh
# The rules of the house as tests, in TAP. Needs a POSIX sh and awk only.
#
#     house.sh ROOT               one case a rule: fails with each offence found in the tree at ROOT
#     house.sh --self-check HERE  one case a rule: builds a small bad tree, and fails unless just that rule objects to it
set -u

# The name of each rule and what it says, in the order of the report.
rules='room-order             a room includes only lower rooms; engine/colm.h includes none
rooted-includes        includes within the project are written from its root
thin-cli               engine/cli includes engine/colm.h and its own headers only
no-gpu-in-lab          engine/lab does not include engine/gpu
owned-headers          SQLite is spoken to by lab only, Vulkan by gpu only, and so on
silent-library         nothing outside engine/cli prints or ends the process
header-guards          a header has a guard, named by its path
short-files            no file of engine/ or shaders/ is longer than 600 lines
listed-sources         every C file of engine/ and tests/ is named by a meson.build
said-dependencies      every dependency has its reason in a comment above it
no-fast-math           no fast-math switches
return-before-barrier  no shader returns before a barrier
no-markers             no markers of unfinished work
no-homes               no path of one person'\''s machine'

# check ROOT: prints every offence in the tree at ROOT.
check() {
    (
        cd "$1" || exit 1
        for top in engine shaders tests experiments .ci meson.build README.md; do
            [ ! -e "$top" ] || find "$top" -path experiments/data -prune -o -type f \( -name '*.[ch]' -o -name '*.comp' \
                -o -name '*.glsl' -o -name '*.sh' -o -name '*.py' -o -name '*.awk' -o -name '*.md' -o -name '*.json' \
                -o -name meson.build -o -path '.ci/*' \) -print
        done | LC_ALL=C sort | LC_ALL=C xargs awk -f "$awk_rules"
    )
}

# report ROOT: one TAP case a rule.
report() {
    offences=$(check "$1") || { echo "Bail out! the rules could not be read"; exit 1; }
    number=0 bad=0
    while read -r rule words; do
        number=$((number + 1))
        found=$(printf '%s\n' "$offences" | sed -n "s/^$rule //p")
        if [ -z "$found" ]; then
            echo "ok $number - $words"
        else
            printf '%s\n' "$found" | sed 's/^/# /'
            echo "not ok $number - $words"
            bad=1
        fi
    done <<TXT
$rules
TXT
    echo "1..$number"
    return $bad
}

# put PATH: writes standard input to PATH in the small tree.
put() {
    mkdir -p "$tree/$(dirname "$1")"
    cat >"$tree/$1"
}

# A tree that obeys, with the words that a careless rule would trip over.
good_tree() {
    put engine/colm.h <<'C'
#ifndef COLM_H
#define COLM_H
#include <stddef.h>
#endif
C
    put engine/base/err.h <<'C'
#ifndef COLM_BASE_ERR_H
#define COLM_BASE_ERR_H
#include "engine/colm.h"
#endif
C
    put engine/base/err.c <<'C'
#include "engine/base/err.h"
#include "version.h"
#include <stdio.h>
/* Never printf( or exit( here;
   abort( neither. */
static const char *word = "call exit(1) \" printf(";
int base_exit(void) { return snprintf(0, 0, "/tmp/homeless %s", word); } // exit(
C
    echo '#define VERSION "@version@"' | put engine/base/version.h.in
    put engine/lab/store.c <<'C'
#include "engine/base/err.h"
#include <sqlite3.h>
C
    put engine/gpu/open.c <<'C'
#include "shaders/abi.h"
#include <volk.h>
C
    put engine/cli/main.c <<'C'
#include "engine/cli/args.h"
#include "engine/colm.h"
int main(void) { printf("hello\n"); }
C
    put engine/cli/args.h <<'C'
#ifndef COLM_CLI_ARGS_H
#define COLM_CLI_ARGS_H
#endif
C
    put shaders/abi.h <<'C'
#ifndef COLM_ABI_H
#define COLM_ABI_H
#endif
C
    put shaders/sum.comp <<'C'
// Never return before a barrier();
float twice(float x) { return 2.0 * x; }
void reduce() {
    barrier();
}
void main() {
    if (gl_LocalInvocationIndex == 0u) { a = twice(1.0); }
    reduce();
    if (done) return;
    a = 1.0;
}
C
    put tests/base/err.c <<'C'
#include "engine/lab/store.h"
#include <sqlite3.h>
int main(void) { char name[] = "XXXXXX"; printf("%s", name); }
C
    put meson.build <<'C'
# Maths.
m_dep = cc.find_library('m')

# The parts of a library.
foreach name : ['a', 'b']
  parts += cc.find_library(name)
endforeach

base_dep = declare_dependency(link_with: base_lib)
C
    echo "files('err.c')" | put engine/base/meson.build
    echo "files('store.c')" | put engine/lab/meson.build
    echo "files('open.c')" | put engine/gpu/meson.build
    echo "files('main.c')" | put engine/cli/meson.build
    echo "executable('err', 'base/err.c')" | put tests/meson.build
}

# spoil RULE: adds to the good tree what RULE must object to. Several offences of one rule give several files.
spoil() {
    case $1 in
    room-order)
        echo '#include "engine/gpu/gpu.h"' | put engine/tensor/up.c
        echo '#include "engine/model/model.h"' | put engine/data/up.c
        echo '#include "engine/attic/old.h"' | put engine/lab/unknown.c
        echo 'int cellar;' | put engine/cellar/a.c
        echo '#include "engine/base/err.h"' >>"$tree/engine/colm.h"
        expect=5 ;;
    rooted-includes)
        echo '#include "err.h"' | put engine/base/near.c
        expect=1 ;;
    thin-cli)
        echo '  #  include "engine/lab/store.h"' | put engine/cli/deep.c
        expect=1 ;;
    no-gpu-in-lab)
        echo '#include "engine/gpu/gpu.h"' | put engine/lab/device.c
        expect=1 ;;
    owned-headers)
        echo '#include <sqlite3.h>' | put engine/eval/sql.c
        echo '#include <vulkan/vulkan.h>' | put engine/ops/vk.c
        echo '#include <shaderc/shaderc.h>' | put engine/model/sc.c
        echo '#include <volk.h>' | put engine/lab/volk.c
        expect=4 ;;
    silent-library)
        printf 'void f(void) {\n    printf("x"); /* a\n b */ exit (1);\n}\n' | put engine/base/loud.c
        printf 'static char *s = "/*";\nvoid g(void) { fprintf(stderr, s); }\n' | put engine/ops/loud.c
        expect=3 ;;
    header-guards)
        printf '#ifndef ERR_H\n#define ERR_H\n#endif\n' | put engine/base/two.h
        echo 'int x;' | put tests/bare.h
        expect=2 ;;
    short-files)
        awk 'BEGIN { for (i = 0; i < 601; i++) print "" }' | put engine/base/long.c
        awk 'BEGIN { for (i = 0; i < 601; i++) print "" }' | put shaders/long.glsl
        awk 'BEGIN { for (i = 0; i < 600; i++) print "" }' | put shaders/just.glsl
        expect=2 ;;
    listed-sources)
        echo 'int lost;' | put engine/base/lost.c
        echo 'int lost;' | put tests/base/lost.c
        echo "# lost.c" >>"$tree/tests/meson.build"
        expect=2 ;;
    said-dependencies)
        printf "\nif x\n  y = dependency('y')\nendif\nz = cc.find_library('z')\ncc.has_header('w.h')\n" >>"$tree/meson.build"
        expect=3 ;;
    no-fast-math)
        echo "add_project_arguments('-O2', '-ffast-math')" >>"$tree/meson.build"
        expect=1 ;;
    return-before-barrier)
        printf 'void main() {\n    if (i >= n) return;\n    barrier();\n}\n' | put shaders/direct.comp
        printf 'void sum() { barrier(); }\nvoid main() {\n    if (i >= n) { return; }\n    sum();\n}\n' | put shaders/called.comp
        expect=2 ;;
    no-markers)
        echo "# TO""DO: later" | put tests/late.sh
        echo "/* XX""X */" | put engine/base/late.c
        expect=2 ;;
    no-homes)
        echo "cd /ho""me/someone/colm" | put experiments/go.sh
        expect=1 ;;
    *) expect=0 ;;
    esac
    # Every file but those meant to be lost is listed.
    find "$tree" -name '*.c' ! -name lost.c | sed "s:^$tree/::; s:.*:'&':" >>"$tree/meson.build"
}

self_check() {
    tree=$(mktemp -d) || exit 1
    trap 'rm -rf "$tree"' EXIT
    good_tree
    number=1 bad=0
    offences=$(check "$tree")
    if [ -z "$offences" ]; then
        echo "ok 1 - a tree that obeys passes"
    else
        printf '%s\n' "$offences" | sed 's/^/# /'
        echo "not ok 1 - a tree that obeys passes"
        bad=1
    fi
    while read -r rule words; do
        number=$((number + 1))
        rm -rf "$tree"
        good_tree
        spoil "$rule"
        offences=$(check "$tree")
        found=$(printf '%s\n' "$offences" | grep -c "^$rule ")
        others=$(printf '%s\n' "$offences" | grep -c -v -e "^$rule " -e '^$')
        if [ "$expect" -gt 0 ] && [ "$found" -eq "$expect" ] && [ "$others" -eq 0 ]; then
            echo "ok $number - $rule objects"
        else
            printf '%s\n' "$offences" | sed 's/^/# /'
            echo "# expected $expect of $rule and nothing else"
            echo "not ok $number - $rule objects"
            bad=1
        fi
    done <<TXT
$rules
TXT
    echo "1..$number"
    return $bad
}

case ${1-} in
--self-check)
    awk_rules=$(cd "${2:-$(dirname "$0")}" && pwd)/house.awk
    self_check
    ;;
?*)
    awk_rules=$(cd "$1" && pwd)/tests/lint/house.awk
    report "$1"
    ;;
*)
    echo "usage: house.sh ROOT | house.sh --self-check [FOLDER OF house.awk]" >&2
    exit 2
    ;;
esac
