/* colm: grow language models by chains, on any Vulkan device. The only public header of libcolm.
 *
 * Tiers: check an experiment file (colm_validate), see what it would cost (colm_plan), run it (colm_run), read
 * what was measured (colm_compare and others). `ret_` parameters are written on success only; err may be NULL.
 * Nothing here prints or exits. */
#ifndef COLM_H
#define COLM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a call came to. Exit codes of the command line are these numbers. */
typedef enum {
    COLM_OK = 0,
    COLM_E_INPUT = 1,       /* the caller's text, numbers or files are wrong: fix them and call again */
    COLM_E_USAGE = 2,       /* the command line is wrong */
    COLM_E_IO = 3,          /* the operating system refused to read or write */
    COLM_E_MEMORY = 4,      /* host or device memory ran out */
    COLM_E_NO_DEVICE = 5,   /* no Vulkan loader, driver or matching device */
    COLM_E_DEVICE = 6,      /* the device failed or was lost */
    COLM_E_CHECK = 7,       /* a result contradicts what must hold (retention, NaN loss, corrupt checkpoint) */
    COLM_E_INTERRUPTED = 8, /* asked to stop */
    COLM_E_BUG = 9          /* colm is wrong; please report it */
} colm_status;

/* One line that says what, where, which value, what was expected and what to do. Owned by the caller. */
typedef struct {
    colm_status code;
    char text[1024];
} colm_err;

/* Text handed back to the caller: NUL-terminated, free with colm_text_free. */
void colm_text_free(char **text);
const char *colm_version(void);
/* "input error", "device lost", ... for a status. */
const char *colm_status_text(colm_status s);

/* Output shapes of everything that is read: aligned tables for people, JSON and CSV for programs. */
typedef enum { COLM_TABLE, COLM_JSON, COLM_CSV } colm_format;

/* Which device computes and how. Zero means default throughout. */
typedef struct {
    const char *
        device; /* NULL: the first usable Vulkan device (CPU types last). An index, a UUID or part of a name, as
                   `colm devices` lists them; "reference": double precision on the CPU, slow, needs no Vulkan */
    const char *kernels;   /* NULL or "auto": the best class that fits; "cpu", "gpu" or "portable" forces one */
    bool validate;         /* Khronos validation layer; its messages fail the run */
    bool sync;             /* wait after every dispatch: finds faults, changes no result */
    uint64_t submit_flops; /* most work per submission; 0: by device type */
    bool unsafe;           /* run also where the last selftest failed */
} colm_device_params;

/* The Vulkan devices of this machine. */
colm_status colm_devices(colm_format f, char **ret_text, colm_err *err);

/* Runs every operation, forward and backward, with every kernel that the device takes (or of the class asked
 * for) and holds the results against double precision: a row each, with error and limit. Takes seconds. The
 * verdict is kept in the shader cache; colm_run refuses a device that failed. *ret_text is set also with
 * COLM_E_CHECK. */
colm_status colm_selftest(const colm_device_params *device, colm_format f, char **ret_text, colm_err *err);

/* Reads and checks an experiment file without opening data, devices or databases. *ret_text says what is in it.
 */
colm_status colm_validate(const char *path, char **ret_text, colm_err *err);
/* What every stage of every arm would do and take: parameters total and trained, tokens, steps, FLOPs, device
 * memory. No data, device or database is opened. */
colm_status colm_plan(const char *path, colm_format f, char **ret_text, colm_err *err);

typedef enum { COLM_EVENT_LINE, COLM_EVENT_WARNING, COLM_EVENT_PROGRESS } colm_event_kind;
/* What a run reports. `text` is one finished line (LINE, WARNING) or the state of the current stage (PROGRESS:
 * meant to replace the previous one on a terminal; `done` of `total`). Valid during the call. */
typedef struct {
    colm_event_kind kind;
    const char *text;
    uint64_t done, total;
} colm_event;

typedef struct {
    const char *path; /* the experiment file */
    const char *db;   /* NULL: $COLM_DB, else results/colm.db */
    colm_device_params device;
    bool fresh;                                     /* run finished stages again */
    void (*event)(void *user, const colm_event *e); /* may be NULL */
    bool (*stop)(void *user); /* polled between steps; true ends the run as interrupted. May be NULL */
    void *user;
} colm_run_params;
/* Runs every arm for every seed; finished stages are skipped. One arm's failure fails those that start from it
 * and the call, but not the others. Checkpoints and token files lie beside the database in "<db>.files/". */
colm_status colm_run(const colm_run_params *p, colm_err *err);

/* How fast whole training steps of fixed configurations are on a device (cases a to g, random tokens), and
 * which share of the device's ceilings that is: of the arithmetic and the bandwidth that kernels which do
 * nothing else reach in the same run. No data or database is opened. */
typedef struct {
    colm_device_params device;
    const char *cases;       /* letters of the cases; NULL: all */
    uint32_t batch, context; /* 0: 8 x 256 */
    double seconds;          /* per case; 0: 5 */
    const char *precision;   /* "f32", "bf16" or "f16", as in experiment files; NULL: "f32" */
    bool interleave;         /* one step of each case in turn, all in memory at once: for their ratios */
    bool profile; /* then where a step's time goes, by operation: timestamps within a step where the device has
                     them */
    bool shapes;  /* the same by operation and shape */
    bool alone;   /* then every operation alone, at each of its shapes; not with the other two */
    bool tune;    /* first the variants of every linear the cases use are measured, and the fastest kept for the
                     device: changes no result, now or later */
} colm_bench_params;
/* A table of the cases, or of the operations that a profile asks for. JSON is an object: "device",
 * "precision", "ceilings", "cases" and "operations", an array each. */
colm_status colm_bench(const colm_bench_params *p, colm_format f, char **ret_text, colm_err *err);

/* Reading results; db as above. See results/README.md for what the columns mean. */
colm_status colm_runs(const char *db, colm_format f, char **ret_text, colm_err *err);
colm_status colm_show(const char *db, const char *run, colm_format f, char **ret_text, colm_err *err);
colm_status colm_compare(const char *db, const char *const *which, size_t n, colm_format f, char **ret_text,
                         colm_err *err);
colm_status colm_query(const char *db, const char *sql, colm_format f, char **ret_text, colm_err *err);

#ifdef __cplusplus
}
#endif
#endif
