#!/bin/sh
# From a bare machine to a first answer: installs what is missing, builds, fetches two real texts, runs
# experiments/quickstart.json, prints how its arms compare, and says where the numbers lie. Finished work is skipped.
#
#     sh experiments/quickstart.sh [OPTION OF colm run]...        e.g. --device llvmpipe, --db my.db
set -eu
cd "$(dirname "$0")/.."
. tests/setup.sh

case ${1-} in
-h | --help)
    sed -n '2,/^[^#]/s/^#\{1,\} \{0,1\}//p' experiments/quickstart.sh
    exit 0
    ;;
esac

# The database is named as `colm run` will name it: --db, else COLM_DB, else the default.
db=${COLM_DB:-results/colm.db}
before=
for arg; do
    [ "$before" != --db ] || db=$arg
    case $arg in --db=*) db=${arg#--db=} ;; esac
    before=$arg
done

# shellcheck disable=SC2086 # a list of names
need_packages "building colm" $build_packages
say "Building in build"
configure_build build || die "The build could not be set up: see the messages above."
ninja -C build --quiet engine/cli/colm
sh experiments/corpora.sh experiments/data

colm=build/engine/cli/colm
$colm run experiments/quickstart.json "$@"
$colm compare quickstart --db "$db"

cat <<TXT

Every number above is in $db. Two questions to start with:

  $colm query --db $db "SELECT arm, scale, task, metric, value, stderr FROM result WHERE experiment = 'quickstart' ORDER BY task, metric, arm, scale"

  $colm query --db $db "SELECT arm, kind, chains, params_trained, tokens, flops, seconds FROM run JOIN stage ON stage.run = run.id ORDER BY run.id, place"
TXT
