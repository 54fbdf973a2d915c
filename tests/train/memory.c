/* Memory as planned: what a process grows by in training, what the optimizer takes, what is refused. Each
 * training runs in a process of its own. */
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/data/tokenizer.h"
#include "engine/train/loop.h"
#include "tests/data/scratch.h"
#include "tests/model/models.h"

/* Beside the plan, once a step of the same stage has loaded the driver and compiled its kernels (which takes
 * some 25 MiB for each compiler at work, and is told as a note): descriptors, the batch on the host, what the
 * allocator keeps. */
#define ALLOWANCE (8.0 * 1048576)

static scratch folder;
static corpus *texts;
static batch_part part;

static bool texts_open(void) {
    colm_err err = {0};
    tokenizer *tok = NULL;
    char text[4096];
    const char *names[4];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i * i % 23);
    for (size_t i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "%zu.txt", i);
        text[0] = (char)('0' + i);
        if (!(names[i] = scratch_put(&folder, name, text, sizeof text))) return false;
    }
    corpus_params p = {.name = "text",
                       .text = names,
                       .n_text = 4,
                       .heldout = 0.1,
                       .cache_dir = scratch_path(&folder, "cache")};
    bool ok = CHECK_OK(tokenizer_open("bytes", &tok, &err), err) &&
              CHECK_OK(corpus_open(&p, tok, NULL, &texts, &err), err);
    tokenizer_close(&tok);
    part = (batch_part){texts, 1};
    return ok;
}

typedef struct {
    const char *what;
    uint32_t vocab, layers, B, T, frozen;
    bool recompute;
    model_chain chain[2];
} stage;

static const stage stages[] = {
    {"parameters", 30000, 1, 1, 16, 0, false, {{48, 2, 1, 24}, {40, 2, 1, 24}}},
    {"frozen parameters", 30000, 1, 1, 16, 1, false, {{48, 2, 1, 24}, {40, 2, 1, 24}}},
    {"activations", 300, 6, 4, 128, 0, false, {{80, 2, 1, 264}, {80, 2, 1, 264}}},
    {"activations computed again", 300, 6, 4, 128, 0, true, {{80, 2, 1, 264}, {80, 2, 1, 264}}},
};
#define STAGES (sizeof stages / sizeof *stages)

static model_config config_of(const stage *s) {
    model_config c = test_config(2, s->chain);
    c.vocab = s->vocab, c.layers = s->layers, c.context = s->T;
    return c;
}

static train_params params_of(const stage *s) {
    return (train_params){.batch = s->B,
                          .context = s->T,
                          .tokens = 1,
                          .lr = 1e-3,
                          .min_lr = 0.1,
                          .beta1 = 0.9,
                          .beta2 = 0.95,
                          .eps = 1e-8,
                          .clip = 1,
                          .log_every = 1,
                          .frozen = s->frozen,
                          .recompute = s->recompute};
}

/* Pages of this process in memory, in bytes. */
static double resident(void) {
    unsigned long all = 0, now = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%lu %lu", &all, &now) != 2) now = 0;
    if (f) fclose(f);
    return (double)now * (double)sysconf(_SC_PAGESIZE);
}

static bool watch(void *user, const train_tick *t) {
    double *peak = user, now = resident();
    (void)t;
    if (now > *peak) *peak = now;
    return false;
}

/* Some steps; what the process held before, with the weights, and at most after a step. False on failure. */
static bool train(ops_machine *m, const stage *s, uint64_t steps, double *before, double *peak,
                  uint64_t *bytes) {
    colm_err err = {0};
    model_config c = config_of(s);
    model_weights *w = NULL;
    train_job job = {
        .params = params_of(s), .part = &part, .n_parts = 1, .seed = 5, .tick = watch, .user = peak};
    train_result r = {0};
    job.params.tokens = steps * s->B * s->T;
    bool ok = CHECK_OK(model_weights_init(&c, 3, &w, &err), err);
    malloc_trim(0);
    *before = *peak = resident();
    ok = ok && CHECK_OK(train_run(m, w, &job, &r, &err), err) && CHECK(r.steps == steps);
    *bytes = r.memory;
    model_weights_free(&w);
    return ok;
}

#define ELSEWHERE (-1.0) /* no device, or its memory is not the process's */

/* In a child: the device opened, a step of the stage to warm up, then three. Writes to the pipe: growth in the
 * three steps, the bytes that the machine held or ELSEWHERE, growth in the first step. */
static void child(const char *class, const stage *s, int to) {
    colm_err err = {0};
    ops_machine *m = NULL;
    double before = 0, peak = 0, cold = 0, out[3] = {0, ELSEWHERE, 0};
    uint64_t bytes = 0;
    test_bad_ = 0;                    /* what failed before is the parent's */
    mallopt(M_MMAP_THRESHOLD, 65536); /* what the first step frees shall not hide what the others take */
    ops_open_params p = {.device = NULL, .kernels = class};
    if (ops_open(&p, &m, &err))
        printf("# no device: %s\n", err.text);
    else if (strstr(ops_machine_name(m), "llvmpipe") && train(m, s, 1, &before, &peak, &bytes) &&
             (cold = peak - before, train(m, s, 3, &before, &peak, &bytes))) {
        out[0] = peak - before;
        out[1] = (double)bytes;
        out[2] = cold;
    }
    ops_close(&m);
    fflush(stdout);
    if (write(to, out, sizeof out) != sizeof out) _exit(1);
    _exit(test_bad_ > 0);
}

static bool measured(const char *class, const stage *s, double out[3]) {
    int ends[2], status = 1;
    if (!CHECK(pipe(ends) == 0)) return false;
    fflush(stdout);
    pid_t id = fork();
    if (id == 0) child(class, s, ends[1]);
    close(ends[1]);
    bool ok = CHECK(id > 0) && CHECK(read(ends[0], out, 3 * sizeof *out) == 3 * sizeof *out);
    if (id > 0) CHECK(waitpid(id, &status, 0) == id && status == 0);
    close(ends[0]);
    return ok && status == 0;
}

/* Where the device's memory is the process's own: pages in use grow by the planned bytes and little more; and
 * by hardly less, or the plan counts what is not there. */
static void a_process_grows_by_what_is_planned(void) {
    static const char *const classes[] = {"cpu", "portable"};
#ifdef __SANITIZE_ADDRESS__
    test_skip("the sanitizer keeps what is freed");
    return;
#endif
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < STAGES; k++) {
            colm_err err = {0};
            double got[3] = {0};
            uint64_t plan = 0;
            model_config c = config_of(&stages[k]);
            train_params p = params_of(&stages[k]);
            if (!CHECK_OK(train_memory(&c, &p, &plan, &err), err) || !measured(classes[i], &stages[k], got))
                continue;
            if (got[1] == ELSEWHERE) {
                test_skip("no device whose memory is the process's own");
                return;
            }
            CHECK(got[1] == (double)plan);
            CHECK(got[0] <= 1.1 * (double)plan + ALLOWANCE);
            CHECK(got[0] >= 0.9 * (double)plan);
            printf("# %s, %s: planned %.1f MiB, grown by %.1f MiB, with compilers %.1f\n", classes[i],
                   stages[k].what, (double)plan / 1048576, got[0] / 1048576, got[2] / 1048576);
        }
}

/* Elements of a trained tensor as the layout pads it: columns of every chain to 8, rows likewise, strides off
 * multiples of 64, the whole to 64. */
static uint64_t padded(const model_config *c, const model_tensor *t) {
    bool vector = param_is_vector(t->kind), own = param_is_own(c, t->kind);
    uint32_t cols = 0;
    for (uint32_t i = own ? t->chain : 0; i <= t->chain; i++) {
        uint32_t n = own ? t->cols : param_space_width(c, param_get(t->kind)->cols, i);
        cols += (n + 7) / 8 * 8;
    }
    if (!vector && cols % 64 == 0) cols += 8;
    uint64_t n = (vector ? 1 : (t->rows + 7u) / 8 * 8) * (uint64_t)cols;
    return (n + 63) / 64 * 64;
}

/* 8 bytes for each trained parameter and the padding that is listed here, tensor by tensor; none for what is
 * frozen. */
static void the_optimizer_takes_eight_bytes_for_each_parameter(void) {
    static const struct {
        const char *what;
        double most; /* padded by true */
        model_chain chain[2];
    } shape[] = {
        {"odd widths", 4, {{7, 1, 1, 11}, {13, 2, 1, 15}}},
        {"multiples of 8", 1.1, {{48, 4, 2, 136}, {40, 2, 1, 88}}},
        {"multiples of 64", 1.15, {{128, 4, 2, 384}, {64, 2, 1, 192}}},
    };
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (uint32_t frozen = 0; frozen < 3; frozen++) {
            colm_err err = {0};
            model_config c = test_config(2, shape[i].chain);
            c.head_dim = 32, c.vocab = 1000;
            train_params p = {.frozen = frozen};
            ops_machine *m = NULL;
            model_weights *w = NULL;
            model_state *s = NULL;
            if (CHECK_OK(ops_open_plan(&m, &err), err) && CHECK_OK(model_weights_create(&c, &w, &err), err) &&
                CHECK_OK(model_state_create(m, w, frozen, &s, &err), err)) {
                uint64_t all = 0, exact = 0, worst = 0;
                for (size_t k = 0; k < w->n_tensors; k++) {
                    const model_tensor *t = &w->tensor[k];
                    uint64_t n = (uint64_t)t->rows * t->cols;
                    if (t->chain < frozen) continue;
                    all += padded(&c, t), exact += n;
                    if (padded(&c, t) - n > worst) worst = padded(&c, t) - n;
                }
                CHECK(exact == train_trained(&c, &p));
                CHECK(ops_bytes(m, "optimizer") == 8 * all);
                CHECK(ops_bytes(m, "gradients") == 4 * all);
                CHECK((double)all <= shape[i].most * (double)exact);
                if (exact)
                    printf(
                        "# %s, %u frozen: %llu parameters train, %llu with padding (%.3f); at most %llu in one "
                        "tensor\n",
                        shape[i].what, frozen, (unsigned long long)exact, (unsigned long long)all,
                        (double)all / (double)exact, (unsigned long long)worst);
            }
            model_state_free(&s);
            model_weights_free(&w);
            ops_close(&m);
        }
}

/* A byte too few is refused with the bytes of every purpose, which add up. */
static void too_little_memory_is_refused_with_the_bytes_of_each_purpose(void) {
    static const char *const purposes[] = {"parameters ",  "gradients ", "optimizer ",
                                           "activations ", "scratch ",   "step data "};
    colm_err err = {0};
    uint64_t plan = 0, sum = 0;
    char number[32];
    model_config c = config_of(&stages[2]);
    train_params p = params_of(&stages[2]);
    CHECK_OK(train_memory(&c, &p, &plan, &err), err);
    CHECK_OK(train_fits(&c, &p, plan, &err), err);
    CHECK(train_fits(&c, &p, plan - 1, &err) == COLM_E_MEMORY);
    for (size_t i = 0; i < sizeof purposes / sizeof *purposes; i++) {
        const char *at = strstr(err.text, purposes[i]);
        if (CHECK(at != NULL)) sum += strtoull(at + strlen(purposes[i]), NULL, 10);
    }
    CHECK(sum == plan);
    snprintf(number, sizeof number, "%llu", (unsigned long long)plan);
    CHECK_HAS(err.text, number);
    snprintf(number, sizeof number, "there are %llu", (unsigned long long)plan - 1);
    CHECK_HAS(err.text, number);
    CHECK_HAS(err.text, "\"recompute\"");
    uint64_t less = 0;
    p.recompute = true;
    CHECK_OK(train_memory(&c, &p, &less, &err), err);
    CHECK(less < plan * 7 / 10);
}

int main(void) {
    folder = scratch_open();
    if (!texts_open()) return 1;
    TEST(a_process_grows_by_what_is_planned);
    TEST(the_optimizer_takes_eight_bytes_for_each_parameter);
    TEST(too_little_memory_is_refused_with_the_bytes_of_each_purpose);
    corpus_close(&texts);
    scratch_close(&folder);
    return test_end();
}
