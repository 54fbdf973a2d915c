# The rules of the house, over the files named on the command line (paths from the root of the tree). Prints one line
# `RULE FILE:LINE: what is wrong` for each offence. Reads C, GLSL, shell, Python and meson files; see house.sh for the
# rules in words. Plain POSIX awk: mawk has neither \b nor {n}.

BEGIN {
    n = split("base tensor gpu data ops model train infer eval lab cli", room_names, " ")
    for (i = 1; i <= n; i++) height[room_names[i]] = i
    # Headers of others, and the one room that speaks to what is behind them.
    owner["sqlite3.h"] = "lab"
    owner["volk.h"] = owner["vulkan/"] = owner["shaderc/"] = "gpu"
    owner["cjson/"] = owner["Random123/"] = owner["xxhash.h"] = "base"
    owner["pcre2.h"] = "data"
    # Written in halves, so that this file does not trip its own rule.
    markers = "(^|[^A-Za-z0-9_])(TO" "DO|FIX" "ME|XX" "X|HA" "CK)([^A-Za-z0-9_]|$)"
    homes = "(^|[^A-Za-z0-9_.])/(ho" "me|ro" "ot|Us" "ers)/"
    loud = "(^|[^A-Za-z0-9_])(v?printf|v?fprintf|puts|fputs|putchar|perror|exit|_exit|quick_exit|abort|system)[ ]*\\("
}

function offend(rule, what) { print rule " " FILENAME ":" FNR ": " what }

function room_of(path,    part) {
    return split(path, part, "/") > 2 && part[1] == "engine" ? part[2] : ""
}

# The line without comments and without what stands between quotes. in_comment carries over lines.
function code_of(line,    out, at, mark, end) {
    out = ""
    while (line != "") {
        if (in_comment) {
            end = index(line, "*/")
            if (!end) return out
            line = substr(line, end + 2)
            in_comment = 0
            continue
        }
        if (!match(line, /["']|\/\*|\/\//)) return out line
        at = RSTART
        mark = substr(line, at, RLENGTH)
        out = out substr(line, 1, at - 1)
        line = substr(line, at + RLENGTH)
        if (mark == "//") return out
        if (mark == "/*") { in_comment = 1; continue }
        out = out mark mark
        while (line != "") {
            end = substr(line, 1, 1)
            line = substr(line, end == "\\" ? 3 : 2)
            if (end == mark) break
        }
    }
    return out
}

# What meson.build files name, and which sources there are: judged at the end.
function remember(path,    base, folder) {
    base = folder = path
    sub(/.*\//, "", base)
    sub(/\/[^\/]*$/, "", folder)
    source[path] = folder
    source_base[path] = base
}

FNR == 1 {
    in_comment = 0
    room = room_of(FILENAME)
    is_c = FILENAME ~ /\.[ch]$/
    is_shader = FILENAME ~ /^shaders\//
    is_meson = FILENAME ~ /meson\.build$/
    above = ""
    guard = ""
    depth = 0
    body = ""
    if (FILENAME ~ /^(engine|tests)\/.*\.c$/) remember(FILENAME)
    if (room != "" && !(room in height)) offend("room-order", "there is no room called " room)
}

$0 ~ markers { offend("no-markers", "a marker of unfinished work: finish it, or file it") }
$0 ~ homes { offend("no-homes", "a path of one person's machine") }
/^[^#]*-(ffast-math|Ofast)/ && is_meson { offend("no-fast-math", "fast math breaks bitwise equality and NaN checks") }
FNR == 601 && FILENAME ~ /^(engine|shaders)\// { offend("short-files", "longer than 600 lines: look whether two things live in one") }

# ---- includes
is_c && /^[ \t]*#[ \t]*include/ && FILENAME ~ /^engine\// {
    target = $0
    sub(/^[ \t]*#[ \t]*include[ \t]*/, "", target)
    quoted = substr(target, 1, 1) == "\""
    target = substr(target, 2)
    sub(/[">].*/, "", target)
    # A header that the build makes (version.h of version.h.in) is found beside its source.
    beside = FILENAME
    sub(/[^\/]*$/, target ".in", beside)
    if (quoted && target !~ /^(engine|shaders)\// && (getline made <beside) <= 0) offend("rooted-includes", "\"" target "\": write the path from the root, or <...> for headers of others")
    close(beside)
    to = room_of(target)
    if (to != "" && to != room) {
        if (!(to in height)) offend("room-order", target ": there is no room called " to)
        else if (room == "") offend("room-order", target ": the public header includes no room")
        else if (height[to] > height[room]) offend("room-order", target ": " to " lies above " room)
        else if (room == "cli") offend("thin-cli", target ": the command line sees engine/colm.h and engine/cli/ only")
        else if (room == "lab" && to == "gpu") offend("no-gpu-in-lab", target ": experiments reach devices through the rooms between")
    }
    for (header in owner)
        if (index(target, header) == 1 && owner[header] != room)
            offend("owned-headers", target ": only engine/" owner[header] " speaks to it")
}

# ---- silence of the library
is_c && FILENAME ~ /^engine\// && room != "cli" {
    clean = code_of($0)
    if (clean ~ loud) offend("silent-library", "the library neither prints nor ends the process: report through colm_err or a log_sink")
}

# ---- header guards
/^[ \t]*#[ \t]*ifndef/ && FILENAME ~ /\.h$/ && guard == "" {
    guard = $2
    want = toupper(FILENAME)
    sub(/^(ENGINE|SHADERS)\//, "", want)
    gsub(/[^A-Z0-9]/, "_", want)
    if (want !~ /^COLM_H$/) want = "COLM_" want
    if (guard != want) offend("header-guards", guard " should be " want)
    guarded[FILENAME] = 1
}
FNR == 1 && FILENAME ~ /\.h$/ { header_seen[FILENAME] = 1 }

# ---- meson: a reason above each dependency, and every source named
is_meson {
    # Directly above it, or, inside a block, at the head of the paragraph.
    if (above !~ /[^ \t]/) said = $0 ~ /^#/
    if ($0 !~ /declare_dependency/ && $0 ~ /(^|[^a-z_])dependency\(|find_library\(|has_header\(/ && above !~ /^[ \t]*#/ && !(said && /^ /))
        offend("said-dependencies", "say above it what it is for")
    folder = FILENAME
    sub(/\/?meson\.build$/, "", folder)
    named[folder] = named[folder] "\n" $0
}

# ---- shaders: every invocation must reach every barrier
is_shader {
    line = code_of($0)
    while (match(line, /[{};]/)) {
        part = substr(line, 1, RSTART - 1)
        stop = substr(line, RSTART, 1)
        line = substr(line, RSTART + 1)
        statement(part)
        if (stop == "{") {
            if (depth++ == 0) { body = name_in(pending); returned = 0 }
            pending = ""
        } else if (stop == "}") {
            if (depth > 0) depth--
            pending = ""
        } else pending = ""
    }
    statement(line)
}

function name_in(text) {
    sub(/[ \t]*\(.*/, "", text)
    sub(/.*[^A-Za-z0-9_]/, "", text)
    return text
}

function statement(text,    word, rest) {
    pending = pending text
    if (depth == 0 || body == "") return
    rest = text
    while (match(rest, /[A-Za-z_][A-Za-z0-9_]*/)) {
        word = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        if (word == "return") returned = 1
        else if (rest ~ /^[ \t]*\(/ && (word == "barrier" || word in waits)) {
            waits[body] = 1
            if (returned) offend("return-before-barrier", "an invocation may have returned before this " word "()")
        }
    }
}

{ above = $0 }

# Whether the folder's meson.build names the file, in full or as the stem of a loop over names.
function names(folder, file,    stem) {
    stem = file
    sub(/\.c$/, "", stem)
    return index(named[folder], "'" file "'") || index(named[folder], "'" stem "'")
}

END {
    for (path in header_seen)
        if (!(path in guarded)) print "header-guards " path ":1: no include guard"
    for (path in source) {
        # By its own folder's meson.build or by one above it, with the path from there.
        folder = source[path]
        found = names(folder, source_base[path])
        while (!found && folder != "") {
            if (!sub(/\/[^\/]*$/, "", folder)) folder = ""
            found = names(folder, folder == "" ? path : substr(path, length(folder) + 2))
        }
        if (!found) print "listed-sources " path ":1: no meson.build names it, so it is never built"
    }
}
