# Set-up shared by tests/run.sh and experiments/quickstart.sh, which source it from the root of the tree. Defines
# functions and runs nothing. Packages come from the distribution (Debian, Ubuntu); elsewhere they are only named.

# Compiler (of C++ only the library, for shaderc), build tools, the libraries that meson.build asks for, and the Vulkan
# driver for machines without a GPU.
build_packages='gcc g++ libc6-dev meson ninja-build pkgconf libvulkan1 libvulkan-dev libvulkan-volk-dev libshaderc-dev
  libsqlite3-dev libcjson-dev libxxhash-dev libpcre2-dev librandom123-dev mesa-vulkan-drivers'
# python3 counts test cases; the validation layer checks how Vulkan is used.
test_packages='python3 vulkan-validationlayers'
# The PyTorch peer that whole-model numbers are compared with.
peer_packages='python3-numpy python3-torch'
lint_packages='clang-format clang-tidy cppcheck'

say() { printf '%s\n' "$*"; }
complain() { printf '%s\n' "$*" >&2; }
die() { complain "$*"; exit 1; }

# missing_packages NAME...: prints those that are not installed.
missing_packages() {
    for package; do
        dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || printf '%s ' "$package"
    done
}

# as_root COMMAND...: runs it as root, or returns 126 where there is no way to become root without a hang.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"
    elif ! command -v sudo >/dev/null 2>&1; then return 126
    elif sudo -n true 2>/dev/null; then sudo -n "$@"
    elif [ -t 0 ]; then sudo "$@"
    else return 126
    fi
}

# install_packages NAME...: through apt-get, quietly. On failure shows the end of what apt said, and fails.
install_packages() {
    apt_log=$(mktemp) || return 1
    apt_status=0
    # A repository of someone else that cannot be reached must not stop the set-up: only the installation counts.
    { as_root true && { as_root apt-get update -qq || :; } &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            -o DPkg::Lock::Timeout=300 "$@"; } >"$apt_log" 2>&1 </dev/null || apt_status=$?
    if [ "$apt_status" -eq 126 ]; then
        complain "Installing packages needs root. Without root or sudo, ask an administrator to run:"
        complain "  apt-get install --no-install-recommends $*"
    elif [ "$apt_status" -ne 0 ]; then
        tail -n 5 "$apt_log" >&2
    fi
    rm -f "$apt_log"
    return "$apt_status"
}

# need_packages PURPOSE NAME...: makes sure that all are installed, or ends the script with what to do.
need_packages() {
    purpose=$1
    shift
    if ! command -v dpkg-query >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
        complain "This is not Debian or Ubuntu, so nothing is installed here. $purpose needs what these packages hold:" "$@"
        return 0
    fi
    absent=$(missing_packages "$@")
    [ -n "$absent" ] || return 0
    say "Installing for $purpose: $absent"
    # shellcheck disable=SC2086 # a list of names
    install_packages $absent || die "$purpose cannot be set up: the packages above are missing and could not be installed."
}

# want_packages PURPOSE NAME...: the same, but what cannot be had is said, and the script goes on without it.
want_packages() {
    purpose=$1
    shift
    command -v dpkg-query >/dev/null 2>&1 && command -v apt-get >/dev/null 2>&1 || return 0
    absent=$(missing_packages "$@")
    [ -n "$absent" ] || return 0
    say "Installing for $purpose: $absent"
    # shellcheck disable=SC2086 # a list of names
    install_packages $absent || complain "Going on without $purpose: its tests will be skipped."
}

# configure_build DIR [MESON OPTION...]: sets the build folder up once; later calls keep it as it is.
configure_build() {
    build_dir=$1
    shift
    [ -e "$build_dir/build.ninja" ] && return 0
    meson_log=$(mktemp) || return 1
    meson_status=0
    meson setup "$build_dir" "$@" >"$meson_log" 2>&1 || meson_status=$?
    [ "$meson_status" -eq 0 ] || cat "$meson_log" >&2
    rm -f "$meson_log"
    return "$meson_status"
}
