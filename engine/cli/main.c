/* colm on the command line: arguments, terminal, exit codes. All work is behind engine/colm.h. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "engine/colm.h"

/* Everything an option can set. */
typedef struct {
    const char *db, *device, *kernels, *submit, *seconds, *batch, *context, *precision;
    bool json, csv, fresh, sync, validate, interleave, profile, shapes, alone, tune, unsafe, help;
    const char *word[64]; /* what is not an option */
    size_t n_words;
} args;

typedef struct {
    const char *name, *value; /* value: what it takes, NULL for a flag */
    size_t off;
    const char *help;
} option;
#define OFF(field) offsetof(args, field)
static const option opt_db = {"--db", "FILE", OFF(db), "results database; else $COLM_DB, or results/colm.db"};
static const option opt_json = {"--json", NULL, OFF(json), "for programs: JSON with every digit"};
static const option opt_csv = {"--csv", NULL, OFF(csv), "for programs: CSV with every digit"};
static const option opt_device = {"--device", "NAME", OFF(device),
                                  "index, UUID or part of a name in `colm devices`; or\n"
                                  "\"reference\": double precision on the CPU, slow"};
static const option opt_kernels = {"--kernels", "CLASS", OFF(kernels),
                                   "auto (default: the best that fits), cpu, gpu or portable"};
static const option opt_tune = {"--tune", NULL, OFF(tune),
                                "first find the fastest kernels for the shapes of\n"
                                "these cases, and keep them for this device"};
static const option opt_fresh = {"--fresh", NULL, OFF(fresh), "run finished stages again"};
static const option opt_profile = {"--profile", NULL, OFF(profile), "where a step's time goes, by operation"};
static const option opt_shapes = {"--shapes", NULL, OFF(shapes),
                                  "the same, each shape of an operation by itself"};
static const option opt_alone = {"--alone", NULL, OFF(alone), "every operation by itself, outside a step"};
static const option opt_interleave = {"--interleave", NULL, OFF(interleave),
                                      "a step of each case in turn, all in memory at once:\n"
                                      "for their ratios"};
static const option opt_seconds = {"--seconds", "N", OFF(seconds), "of measured steps per case; 5"};
static const option opt_batch = {"--batch", "N", OFF(batch), "sequences in a step; 8"};
static const option opt_context = {"--context", "N", OFF(context), "tokens of a sequence; 256"};
static const option opt_precision = {"--precision", "TYPE", OFF(precision),
                                     "f32 (default), bf16 or f16: how working weights and\n"
                                     "activations are stored"};
static const option opt_sync = {"--sync", NULL, OFF(sync), "wait after every dispatch; to find faults"};
static const option opt_validate = {"--validate", NULL, OFF(validate),
                                    "load the Khronos validation layer; what it says\n"
                                    "fails the run"};
static const option opt_submit = {"--submit-gflop", "N", OFF(submit),
                                  "most work per submission, in GFLOP; changes no result"};

static const option opt_unsafe = {"--unsafe-device", NULL, OFF(unsafe),
                                  "run also on a device whose last selftest failed"};

typedef colm_status (*action)(const args *a, colm_err *err);
static colm_status do_run(const args *a, colm_err *err);
static colm_status do_validate(const args *a, colm_err *err);
static colm_status do_plan(const args *a, colm_err *err);
static colm_status do_devices(const args *a, colm_err *err);
static colm_status do_selftest(const args *a, colm_err *err);
static colm_status do_bench(const args *a, colm_err *err);
static colm_status do_runs(const args *a, colm_err *err);
static colm_status do_show(const args *a, colm_err *err);
static colm_status do_compare(const args *a, colm_err *err);
static colm_status do_query(const args *a, colm_err *err);

typedef struct {
    const char *name, *words;
    size_t min, max; /* words it takes */
    action run;
    const char *brief, *detail;
    const option *options[14];
} command;
static const command commands[] = {
    {"run",
     "EXPERIMENT.json",
     1,
     1,
     do_run,
     "run every arm and seed; finished stages are skipped",
     "Trains, grows and evaluates as the file says (experiments/README.md) and writes\n"
     "every number to the database. A run that was stopped or killed is taken up at\n"
     "its last finished stage. Ctrl-C stops after the current step; twice, at once.",
     {&opt_db, &opt_device, &opt_kernels, &opt_fresh, &opt_validate, &opt_sync, &opt_submit, &opt_unsafe}},
    {"validate",
     "EXPERIMENT.json",
     1,
     1,
     do_validate,
     "check an experiment file and open nothing else",
     "Unknown keys, wrong types and impossible numbers are named with file, line and\n"
     "path.",
     {NULL}},
    {"plan",
     "EXPERIMENT.json",
     1,
     1,
     do_plan,
     "show what each stage would do, cost and take",
     "Parameters total and trained, tokens, steps, floating-point operations (a\n"
     "multiply-add is two) and bytes of device memory. Opens no data and no device.",
     {&opt_json, &opt_csv}},
    {"selftest",
     "",
     0,
     0,
     do_selftest,
     "hold every operation on a device against double precision",
     "Forward and backward, every kernel class that the device takes (--kernels: one),\n"
     "shapes that hurt. Status 7 when a result is wrong; `colm run` then refuses the\n"
     "device until a selftest passes.",
     {&opt_device, &opt_kernels, &opt_validate, &opt_json, &opt_csv}},
    {"devices",
     "",
     0,
     0,
     do_devices,
     "list the Vulkan devices",
     "The first usable one is the default; CPU types stand last.",
     {&opt_json, &opt_csv}},
    {"bench",
     "[CASES]",
     0,
     1,
     do_bench,
     "measure whole training steps on a device",
     "CASES are letters, all when left out (vocabulary 4096):\n"
     "  a  dense, width 256, 6 layers       e  dense, width 512, 8 layers\n"
     "  b  the same in chains {4,4}         f  dense, width 320, 6 layers\n"
     "  c  the same in chains {2,2,2,2}     g  CoLM-Air {4,4}, else as b\n"
     "  d  256 frozen and 64 trained: growing, against training f\n"
     "First the ceilings: what kernels reach that only multiply and add, or only copy.\n"
     "A share is of the time that the ceilings allow, be it for operations or for\n"
     "bytes; small tensors that caches hold can pass 1. Compare runs on a quiet\n"
     "machine, several times; LP_NUM_THREADS sets the threads of lavapipe.",
     {&opt_interleave, &opt_profile, &opt_shapes, &opt_alone, &opt_tune, &opt_seconds, &opt_batch, &opt_context,
      &opt_precision, &opt_device, &opt_kernels, &opt_json, &opt_csv}},
    {"compare",
     "EXPERIMENT | RUN...",
     1,
     60,
     do_compare,
     "compare the arms of an experiment, or runs",
     "Per arm and scale: scores with standard errors, forgetting, retention, cost. A\n"
     "RUN is its number, or EXPERIMENT/ARM[/SEED]. results/README.md says how each\n"
     "number is computed.",
     {&opt_db, &opt_json, &opt_csv}},
    {"runs", "", 0, 0, do_runs, "list the runs in the database", "", {&opt_db, &opt_json, &opt_csv}},
    {"show",
     "RUN",
     1,
     1,
     do_show,
     "show one run: stages, last metrics, scores",
     "RUN is its number, or EXPERIMENT/ARM[/SEED].",
     {&opt_db, &opt_json, &opt_csv}},
    {"query",
     "SQL",
     1,
     1,
     do_query,
     "ask the database, read-only",
     "Tables and columns stand in results/README.md. For example:\n"
     "  colm query \"SELECT arm, task, scale, value FROM result WHERE metric = 'acc'\"",
     {&opt_db, &opt_json, &opt_csv}},
};
#define N_COMMANDS (sizeof commands / sizeof *commands)

static void help_all(FILE *f) {
    fprintf(f,
            "colm %s: grow language models by chains, on any Vulkan device\n\nusage: colm COMMAND [WORDS] "
            "[OPTIONS]\n\n",
            colm_version());
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(f, "  %-10s %-20s %s\n", commands[i].name, commands[i].words, commands[i].brief);
    fprintf(f, "\n`colm COMMAND --help` tells more. To start: sh experiments/quickstart.sh\n"
               "exit status: 0 done");
    for (int i = 1; i <= COLM_E_BUG; i++)
        fprintf(f, ",%s%d %s", i % 5 ? " " : "\n             ", i, colm_status_text((colm_status)i));
    fprintf(f, "\n");
}

/* Help with its further lines below the first. */
static void help_option(const option *o) {
    char left[64];
    snprintf(left, sizeof left, "%s %s", o->name, o->value ? o->value : "");
    for (const char *line = o->help; line; left[0] = 0) {
        size_t n = strcspn(line, "\n");
        printf("  %-20s %.*s\n", left, (int)n, line);
        line = line[n] ? line + n + 1 : NULL;
    }
}

static void help_one(const command *c) {
    printf("usage: colm %s%s%s%s\n\n%s.\n%s%s", c->name, *c->words ? " " : "", c->words,
           c->options[0] ? " [OPTIONS]" : "", c->brief, c->detail, *c->detail ? "\n" : "");
    for (size_t i = 0; c->options[i]; i++) {
        if (!i) printf("\n");
        help_option(c->options[i]);
    }
}

static int usage(const char *what, const char *word, const char *command_name) {
    fprintf(stderr, "colm: %s%s; `colm %s%s--help` tells what there is\n", what, word, command_name,
            *command_name ? " " : "");
    return COLM_E_USAGE;
}

/* Reads the words after the command. Options may stand anywhere, as --name value or --name=value; "--" ends
 * them. */
static int parse(const command *c, int argc, char **argv, args *a) {
    bool only_words = false;
    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i];
        if (only_words || arg[0] != '-' || !arg[1]) {
            if (a->n_words == sizeof a->word / sizeof *a->word)
                return usage("too many words from ", arg, c->name);
            a->word[a->n_words++] = arg;
            continue;
        }
        if (strcmp(arg, "--") == 0) {
            only_words = true;
            continue;
        }
        if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            a->help = true;
            continue;
        }
        size_t n = strcspn(arg, "=");
        const option *o = NULL;
        for (size_t k = 0; c->options[k]; k++)
            if (strlen(c->options[k]->name) == n && strncmp(arg, c->options[k]->name, n) == 0)
                o = c->options[k];
        if (!o) return usage("unknown option ", arg, c->name);
        if (!o->value) {
            if (arg[n]) return usage("no value belongs to ", o->name, c->name);
            *(bool *)((char *)a + o->off) = true;
            continue;
        }
        if (!arg[n] && i + 1 == argc) return usage("a value is missing after ", arg, c->name);
        *(const char **)((char *)a + o->off) = arg[n] ? arg + n + 1 : argv[++i];
    }
    if (a->help) return 0;
    if (a->n_words < c->min) return usage("missing: ", c->words, c->name);
    if (a->n_words > c->max) return usage("one word too many: ", a->word[c->max], c->name);
    if (a->json && a->csv) return usage("--json or --csv, not both", "", c->name);
    return 0;
}

static colm_format format(const args *a) {
    return a->json ? COLM_JSON : a->csv ? COLM_CSV : COLM_TABLE;
}

static colm_status show(colm_status st, char **text) {
    if (!st) fputs(*text, stdout);
    colm_text_free(text);
    return st;
}

static colm_status do_validate(const args *a, colm_err *err) {
    char *text = NULL;
    return show(colm_validate(a->word[0], &text, err), &text);
}
static colm_status do_plan(const args *a, colm_err *err) {
    char *text = NULL;
    return show(colm_plan(a->word[0], format(a), &text, err), &text);
}
static colm_status do_devices(const args *a, colm_err *err) {
    char *text = NULL;
    return show(colm_devices(format(a), &text, err), &text);
}
/* The number above 0 that an option was given; *io stays where it was not. */
static colm_status number(const char *name, const char *text, double most, double *io, colm_err *err) {
    char *end = NULL;
    const double v = text ? strtod(text, &end) : 1;
    if (text && (*end || end == text || !(v > 0 && v < most))) {
        snprintf(err->text, sizeof err->text, "%s %s: not a number above 0", name, text);
        return err->code = COLM_E_USAGE;
    }
    if (text) *io = v;
    return COLM_OK;
}
static colm_status whole_number(const char *name, const char *text, uint32_t *io, colm_err *err) {
    double v = *io;
    colm_status st = number(name, text, 1e9, &v, err);
    if (st || v == (double)(uint32_t)v) return *io = (uint32_t)v, st;
    snprintf(err->text, sizeof err->text, "%s %s: not a whole number", name, text);
    return err->code = COLM_E_USAGE;
}

static colm_status do_bench(const args *a, colm_err *err) {
    char *text = NULL;
    colm_bench_params p = {.device = {.device = a->device, .kernels = a->kernels},
                           .cases = a->n_words ? a->word[0] : NULL,
                           .interleave = a->interleave,
                           .profile = a->profile,
                           .shapes = a->shapes,
                           .alone = a->alone,
                           .precision = a->precision,
                           .tune = a->tune};
    colm_status st = whole_number("--batch", a->batch, &p.batch, err);
    if (!st) st = whole_number("--context", a->context, &p.context, err);
    if (!st) st = number("--seconds", a->seconds, 1e6, &p.seconds, err);
    return st ? st : show(colm_bench(&p, format(a), &text, err), &text);
}
static colm_status do_selftest(const args *a, colm_err *err) {
    colm_device_params p = {.device = a->device, .kernels = a->kernels, .validate = a->validate};
    char *text = NULL;
    colm_status st = colm_selftest(&p, format(a), &text, err);
    if (text) fputs(text, stdout); /* also what failed */
    colm_text_free(&text);
    return st;
}
static colm_status do_runs(const args *a, colm_err *err) {
    char *text = NULL;
    return show(colm_runs(a->db, format(a), &text, err), &text);
}
static colm_status do_show(const args *a, colm_err *err) {
    char *text = NULL;
    return show(colm_show(a->db, a->word[0], format(a), &text, err), &text);
}
static colm_status do_compare(const args *a, colm_err *err) {
    char *text = NULL;
    return show(colm_compare(a->db, a->word, a->n_words, format(a), &text, err), &text);
}
static colm_status do_query(const args *a, colm_err *err) {
    char *text = NULL;
    return show(colm_query(a->db, a->word[0], format(a), &text, err), &text);
}

static volatile sig_atomic_t stopping;
static void on_signal(int sig) {
    if (stopping++) _exit(128 + sig); /* asked twice: now */
}
static bool stop_asked(void *user) {
    (void)user;
    return stopping != 0;
}

/* Asks to be told of these. What whoever started us ignores stays ignored (nohup, background jobs). */
static void listen_to_signals(void) {
    static const int sig[] = {SIGINT, SIGTERM, SIGHUP};
    const struct sigaction ours = {.sa_handler = on_signal};
    struct sigaction theirs;
    for (size_t i = 0; i < sizeof sig / sizeof *sig; i++)
        if (sigaction(sig[i], NULL, &theirs) == 0 && theirs.sa_handler != SIG_IGN)
            sigaction(sig[i], &ours, NULL);
}

/* On a terminal the progress line replaces itself; elsewhere there is a plain one every ten seconds. */
typedef struct {
    bool terminal, open;
    double last;
} screen;

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Characters that fit into a line: one that wraps cannot be replaced. */
static int columns(void) {
    struct winsize w;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 1 ? w.ws_col - 1 : 79;
}

static void close_progress(screen *s) {
    if (s->open) printf("\r\033[K");
    s->open = false;
    fflush(stdout);
}

static void on_progress(screen *s, const char *text) {
    double now = seconds();
    if (s->terminal) {
        printf("\r\033[K%.*s", columns(), text);
        s->open = true;
    } else if (now - s->last >= 10) {
        printf("%s\n", text);
        s->last = now;
    }
    fflush(stdout);
}

static void on_event(void *user, const colm_event *e) {
    screen *s = user;
    if (e->kind == COLM_EVENT_PROGRESS) {
        on_progress(s, e->text);
        return;
    }
    close_progress(s);
    if (e->kind == COLM_EVENT_WARNING)
        fprintf(stderr, "colm: %s\n", e->text);
    else
        printf("%s\n", e->text);
    fflush(stdout);
}

static colm_status do_run(const args *a, colm_err *err) {
    screen s = {.terminal = isatty(STDOUT_FILENO), .last = seconds()};
    double gflop = 0;
    colm_status st = number("--submit-gflop", a->submit, 1e9, &gflop, err);
    if (st) return st;
    listen_to_signals();
    colm_run_params p = {
        .path = a->word[0],
        .db = a->db,
        .device = {a->device, a->kernels, a->validate, a->sync, (uint64_t)(gflop * 1e9), a->unsafe},
        .fresh = a->fresh,
        .event = on_event,
        .stop = stop_asked,
        .user = &s};
    st = colm_run(&p, err);
    close_progress(&s);
    return st;
}

static int run_command(const command *c, int argc, char **argv) {
    args a = {0};
    colm_err err = {0};
    int bad = parse(c, argc, argv, &a);
    if (bad) return bad;
    if (a.help) return help_one(c), 0;
    colm_status st = c->run(&a, &err);
    if (st) fprintf(stderr, "colm: %s\n", *err.text ? err.text : colm_status_text(st));
    return (int)st;
}

static bool is_one_of(const char *word, const char *a, const char *b, const char *c) {
    return !strcmp(word, a) || !strcmp(word, b) || !strcmp(word, c);
}

static int dispatch(int argc, char **argv) {
    if (argc < 2) return help_all(stderr), COLM_E_USAGE;
    bool help = is_one_of(argv[1], "help", "--help", "-h");
    if (help && argc == 2) return help_all(stdout), 0;
    if (is_one_of(argv[1], "version", "--version", "-V")) return printf("colm %s\n", colm_version()), 0;
    const char *name = argv[1 + help]; /* colm help COMMAND */
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(name, commands[i].name) != 0) continue;
        return help ? help_one(&commands[i]), 0 : run_command(&commands[i], argc - 2, argv + 2);
    }
    return usage("unknown command ", name, "");
}

int main(int argc, char **argv) {
    int code = dispatch(argc, argv);
    if (!code && (fflush(stdout) || ferror(stdout))) {
        fprintf(stderr, "colm: the output could not be written\n");
        return COLM_E_IO;
    }
    return code;
}
