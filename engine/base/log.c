#include "engine/base/log.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

void log_line(const log_sink *sink, log_level level, const char *fmt, ...) {
    if (!sink || !sink->line) return;
    char text[2048];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n < 0) return;
    if ((size_t)n >= sizeof text) memcpy(text + sizeof text - 4, "...", 4);
    sink->line(sink->user, level, text);
}

static double seconds(clockid_t clock) {
    struct timespec t = {0};
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double clock_seconds(void) {
    return seconds(CLOCK_MONOTONIC);
}
double clock_unix(void) {
    return seconds(CLOCK_REALTIME);
}
