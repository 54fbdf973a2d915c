#!/bin/sh
# Two real texts of clearly different kinds, out of packages of the distribution that are unpacked, never installed:
#
#     sh experiments/corpora.sh [DIR]      (default experiments/data)
#
#   DIR/bible/*.txt     the King James Bible, one chapter a file, one verse a line     (bible-kjv, bible-kjv-text)
#   DIR/perldoc/*.pod   the reference documentation of Perl, one page a file           (perl-doc)
#   DIR/SOURCES.tsv     package, version and digest that each came from, and the digest of the text made from it
#
# Needs no root. apt verifies the packages; the digests are a record, since versions differ between releases. What is
# there and matches its record is kept.
set -eu
LC_ALL=C
export LC_ALL
die() { printf 'corpora: %s\n' "$*" >&2; exit 1; }

target=${1:-$(dirname "$0")/data}
mkdir -p "$target" || die "cannot make the folder $target"
target=$(cd "$target" && pwd)

# digest FOLDER: of all its files, in order of their names.
digest() { (cd "$1" && cat -- * | sha256sum | cut -d ' ' -f 1); }

# intact DOMAIN: whether its text is there and is the one recorded.
intact() {
    [ -d "$target/$1" ] && [ -e "$target/SOURCES.tsv" ] &&
        [ "$(awk -F '\t' -v d="$1" '$1 == d { sum = $NF } END { print sum }' "$target/SOURCES.tsv")" = "$(digest "$target/$1")" ]
}

if intact bible && intact perldoc; then
    printf 'corpora: %s holds both texts already\n' "$target"
    exit 0
fi

if ! command -v apt-get >/dev/null 2>&1; then
    [ -d "$target/bible" ] && [ -d "$target/perldoc" ] ||
        die "not Debian or Ubuntu (no apt-get): put text files of your own into $target/bible and $target/perldoc"
    printf 'corpora: no apt-get here: taking the texts in %s as they are\n' "$target"
    exit 0
fi
temp=$(mktemp -d "$target/.fetch.XXXXXX") || die "cannot write to $target"
trap 'rm -rf "$temp"' EXIT
trap 'exit 130' INT TERM
cd "$temp"

# As whoever we are: apt need not change to a user of its own, who could not write here.
apt_get() { apt-get -qq -o APT::Sandbox::User= "$@"; }
# With lists of our own, so that neither root nor a change to the machine is needed.
apt_own() { apt_get -o "Dir::State::Lists=$temp/lists" -o "Dir::Cache=$temp/cache" -o Debug::NoLocking=1 "$@"; }

# fetch PACKAGE...: its .deb into this folder; with fresh lists where the machine's know no such package or an old one.
fetch() {
    apt_get download "$@" >"$temp/apt.log" 2>&1 && return
    mkdir -p "$temp/lists/partial" "$temp/cache/archives/partial"
    if ! { apt_own update && apt_own download "$@"; } >"$temp/apt.log" 2>&1; then
        tail -n 3 "$temp/apt.log" >&2
        die "apt could not download $*: is there a network, and does /etc/apt name a mirror?"
    fi
}

# record DOMAIN DEB: a line of SOURCES.tsv for the text in the folder DOMAIN here.
record() {
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$(dpkg-deb -f "$2" Package)" "$(dpkg-deb -f "$2" Version)" \
        "$(sha256sum <"$2" | cut -d ' ' -f 1)" "$(ls "$1" | wc -l)" "$(cat "$1"/* | wc -c)" "$(digest "$1")"
}

printf 'corpora: downloading perl-doc, bible-kjv and bible-kjv-text (11 MB)\n'
fetch perl-doc bible-kjv bible-kjv-text
for deb in *.deb; do dpkg-deb -x "$deb" root; done

# ---- perldoc: every page but the table of contents, which repeats the headings of all others, and exact doubles.
mkdir perldoc
for pod in root/usr/share/perl/*/pod/*.pod; do
    [ -e "$pod" ] || die "perl-doc holds no usr/share/perl/*/pod/*.pod any more"
    case $pod in */perltoc.pod) continue ;; esac
    sum=$(sha256sum <"$pod")
    [ ! -e "seen.${sum%% *}" ] || continue
    : >"seen.${sum%% *}"
    cp "$pod" perldoc/
done

# ---- bible: printed by the package's own program, which reads the compressed text.
program=root/usr/bin/bible
[ -x "$program" ] || die "bible-kjv holds no usr/bin/bible any more"
text=$(find root -name bible.data | head -n 1)
[ -n "$text" ] || die "bible-kjv-text holds no bible.data any more"
libraries=
if ldd "$program" | grep -q 'not found'; then # libreadline, named differently in each release
    needs=$(dpkg-deb -f bible-kjv_*.deb Depends | tr , '\n' | sed -n 's/^ *\(lib[^ ]*\).*/\1/p' | grep -vx libc6)
    mkdir needs
    # shellcheck disable=SC2086 # a list of names
    (cd needs && fetch $needs)
    for deb in needs/*.deb; do dpkg-deb -x "$deb" root; done
    libraries=$(find "$temp/root" -name 'lib*.so.*' | sed 's:/[^/]*$::' | sort -u | tr '\n' :)
fi
LD_LIBRARY_PATH=$libraries "$program" -f -p "$(dirname "$text")" Gen1:1-Rev22:21 </dev/null >verses 2>bible.log ||
    die "bible-kjv's program failed: $(head -n 1 bible.log)"
# "Ge1:1 In the beginning ..." becomes line 1 of bible/01-Ge-001.txt, without the reference.
mkdir bible
awk '{
    reference = $1
    at = match(reference, /[0-9]+:[0-9]+$/)
    if (!at) { print "corpora: not a verse: " $0 >"/dev/stderr"; exit 1 }
    name = substr(reference, 1, at - 1)
    if (name != last) { book++; last = name }
    chapter = substr(reference, at)
    sub(/:.*/, "", chapter)
    file = sprintf("bible/%02d-%s-%03d.txt", book, name, chapter)
    if (file != open) { if (open != "") close(open); open = file }
    print substr($0, length(reference) + 2) >file
}' verses
chapters=$(ls bible | wc -l)
[ "$chapters" -eq 1189 ] || die "the Bible came out with $chapters chapters instead of 1189"

{
    printf 'domain\tpackage\tversion\tdeb_sha256\tdocuments\tbytes\ttext_sha256\n'
    record bible bible-kjv_*.deb
    record bible bible-kjv-text_*.deb
    record perldoc perl-doc_*.deb
} >SOURCES.tsv
# Texts that do not match their record may be somebody's own work: they step aside.
rm -f "$target/SOURCES.tsv"
for domain in bible perldoc; do
    [ -e "$target/$domain" ] || continue
    aside=$target/$domain.before.$(date +%Y%m%d-%H%M%S)
    mv "$target/$domain" "$aside"
    printf 'corpora: what was in %s is not what was fetched before: kept as %s\n' "$target/$domain" "$aside"
done
mv bible perldoc SOURCES.tsv "$target/" # the record last: without it the texts are fetched again
cut -f 1,2,3,5,6 "$target/SOURCES.tsv" | awk -F '\t' 'NR > 1 { printf "corpora: %s: %d documents, %d bytes, from %s %s\n", $1, $4, $5, $2, $3 }'
