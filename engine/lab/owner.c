#include "engine/lab/owner.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "engine/base/file.h"

// Start time of a process from /proc (field 22 of its stat line; state is field 3), 0 when it cannot be read or
// the process is dead but not yet waited for. The name in field 2 may hold spaces and parentheses: the last ')'
// ends it.
static int64_t start_of(int64_t pid) {
    char path[64], *text = NULL;
    size_t n;
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    if (file_read(path, 1 << 16, &text, &n, NULL)) return 0;
    int64_t start = 0;
    char *p = strrchr(text, ')');
    if (p && p[1] && p[2] != 'Z' && p[2] != 'X') {
        for (int field = 2; p && field < 22; field++) p = strchr(p + 1, ' ');
        if (p) start = strtoll(p, NULL, 10);
    }
    free(text);
    return start;
}

owner owner_self(void) {
    owner o = {.pid = getpid()};
    char *text = NULL;
    size_t n;
    if (gethostname(o.host, sizeof o.host - 1)) o.host[0] = 0;
    if (!file_read("/proc/sys/kernel/random/boot_id", 4096, &text, &n, NULL)) {
        snprintf(o.boot, sizeof o.boot, "%.*s", (int)strcspn(text, "\n"), text);
    }
    free(text);
    o.start = start_of(o.pid);
    return o;
}

bool owner_same(const owner *a, const owner *b) {
    return a->pid == b->pid && a->start == b->start && !strcmp(a->host, b->host) && !strcmp(a->boot, b->boot);
}

bool owner_lives(const owner *o, const owner *self, double silent) {
    if (strcmp(o->host, self->host)) return silent < OWNER_SILENCE;
    if (strcmp(o->boot, self->boot)) return false; // the machine has been started anew since
    if (o->pid <= 0) return false;
    if (o->start) return start_of(o->pid) == o->start;
    return kill((pid_t)o->pid, 0) == 0 || errno == EPERM;
}
