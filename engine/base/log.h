/* Where slow work reports itself. The library never prints: whoever calls it hands over a sink. */
#ifndef COLM_BASE_LOG_H
#define COLM_BASE_LOG_H

#include "engine/base/err.h"

typedef enum { LOG_DEBUG, LOG_INFO, LOG_WARN } log_level;
typedef struct {
    void (*line)(void *user, log_level level, const char *text); /* NULL: silent */
    void *user;
} log_sink;

COLM_PRINTF(3, 4) void log_line(const log_sink *sink, log_level level, const char *fmt, ...);

/* Seconds on a clock that never runs backwards, and seconds since 1970 UTC. */
double clock_seconds(void);
double clock_unix(void);

#endif
