/* The whole family against an independent oracle (tests/peer/family.py, PyTorch in double precision from the
 * formulas): every scale's logits, the loss and every trained tensor's gradient of the same weights and tokens,
 * within 1e-6 on the reference and 1e-4 on the device's kernel classes. Finite differences would pass with a
 * wrong head map, mask or scaling; this does not. */
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "tests/model/models.h"

#define SCALES 8

static char folder[] = "/tmp/colm-family-XXXXXX";
static const char *current; /* the case */

typedef struct {
    char *bytes;      /* of the file; free() it */
    const void *data; /* n elements of 4 bytes */
    size_t n, rows, cols;
} array;

static void path_of(const char *file, char *buf, size_t n) {
    snprintf(buf, n, "%s/%s/%s", folder, current, file);
}

/* A .npy file of one or two dimensions and 4-byte elements, as numpy.save writes it; rows 0 when it is none. */
static array npy_read(const char *name) {
    char path[256], file[96], header[256] = "";
    array a = {0};
    size_t n = 0;
    colm_err err;
    snprintf(file, sizeof file, "%s.npy", name);
    path_of(file, path, sizeof path);
    if (file_read(path, 0, &a.bytes, &n, &err) || n < 10) return a;
    size_t at = 10 + (size_t)((unsigned char)a.bytes[8] | (unsigned char)a.bytes[9] << 8);
    if (at > n || at - 10 >= sizeof header) return a;
    memcpy(header, a.bytes + 10, at - 10);
    const char *shape = strstr(header, "'shape': (");
    a.rows = 1;
    if (!shape || !strstr(header, "4'") || strstr(header, "True") ||
        (sscanf(shape, "'shape': (%zu, %zu)", &a.rows, &a.cols) != 2 &&
         (a.rows = 1, sscanf(shape, "'shape': (%zu,)", &a.cols)) != 1) ||
        a.rows * a.cols * 4 != n - at) {
        a.rows = 0;
        return a;
    }
    a.data = a.bytes + at;
    a.n = a.rows * a.cols;
    return a;
}

static size_t count_files(const char *pattern) {
    char dir[256], **paths = NULL;
    size_t n = 0;
    colm_err err;
    path_of("", dir, sizeof dir);
    if (file_expand(dir, pattern, &paths, &n, &err)) return 0;
    free(paths);
    return n;
}

/* Relative in norm, and no single element far off; `least` is a norm below which differences are measured
 * against it: what vanishes in exact arithmetic is rounding on both sides. The oracle's plain zeros are zero.
 */
static bool near(const char *what, const float *want, const float *got, size_t n, double tol, double least) {
    double diff = 0, size = 0, worst = 0, largest = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)got[i] - want[i];
        diff += d * d, size += (double)want[i] * want[i];
        worst = !(fabs(d) <= worst) ? fabs(d) : worst;
        largest = fmax(largest, fabs((double)want[i]));
    }
    diff = sqrt(diff), size = sqrt(size);
    double floor = size > 0 ? least : 0;
    if (diff <= tol * fmax(size, floor) && worst <= 10 * tol * fmax(largest, floor)) return true;
    printf("#   %s: %.3g off in norm of %.3g, %.3g in one element of at most %.3g\n", what, diff, size, worst,
           largest);
    return false;
}

typedef struct {
    double lambda[SCALES];
    double loss;
    model_trained trained;
} goal;

static bool goal_read(const model_config *c, goal *ret) {
    char path[256];
    json_doc *doc = NULL;
    json_value v, trained;
    const char *word = NULL;
    colm_err err = {0};
    uint64_t frozen = 0;
    path_of("loss.json", path, sizeof path);
    if (!CHECK_OK(json_open_file(path, &doc, &err), err)) return false;
    json_value root = json_root(doc);
    bool ok = CHECK_OK(json_need(root, "lambda", &v, &err), err) && CHECK(json_count(v) == c->n_chains);
    for (size_t i = 0; ok && i < c->n_chains; i++) {
        ok = CHECK_OK(json_read_double(json_item(v, i), 0, 1, &ret->lambda[i], &err), err);
    }
    ok = ok && CHECK_OK(json_need(root, "loss", &v, &err), err) &&
         CHECK_OK(json_read_double(v, 0, 100, &ret->loss, &err), err) &&
         CHECK_OK(json_need(root, "trained", &trained, &err), err);
    if (ok && json_kind_of(trained) == JSON_OBJECT) {
        ok = CHECK_OK(json_need(trained, "frozen", &v, &err), err) &&
             CHECK_OK(json_read_u64(v, 1, c->n_chains, &frozen, &err), err);
    } else if (ok) {
        ok = CHECK_OK(json_read_string(trained, &word, &err), err) &&
             CHECK(strcmp(word, "head") == 0 || strcmp(word, "all") == 0);
    }
    ret->trained = (model_trained){.frozen = (uint32_t)frozen, .head_only = word && strcmp(word, "head") == 0};
    json_close(&doc);
    return ok;
}

/* The case's weights: each tensor of the table from its file of its shape, and no file left over. */
static model_weights *weights_read(void) {
    char path[256], *text = NULL;
    size_t n = 0;
    colm_err err = {0};
    model_config c = {0};
    model_weights *w = NULL;
    path_of("config.json", path, sizeof path);
    bool ok = CHECK_OK(file_read(path, 0, &text, &n, &err), err) &&
              CHECK_OK(model_config_read(path, text, &c, &err), err) &&
              CHECK_OK(model_weights_create(&c, &w, &err), err) && CHECK(c.n_chains <= SCALES);
    free(text);
    if (!ok) return NULL;
    for (size_t i = 0; i < w->n_tensors; i++) {
        const model_tensor *t = &w->tensor[i];
        char name[64];
        snprintf(name, sizeof name, "w.%s", t->name);
        array a = npy_read(name);
        if (CHECK(a.rows == t->rows && a.cols == t->cols))
            memcpy(w->data + t->off, a.data, 4 * a.n);
        else
            printf("#   %s: %zu x %zu in the file, %u x %u expected\n", name, a.rows, a.cols, t->rows, t->cols);
        free(a.bytes);
    }
    CHECK(count_files("w.*.npy") == w->n_tensors);
    return w;
}

/* Norm of all gradients of the case. */
static double gradient_norm(const model_weights *w) {
    double sum = 0;
    for (size_t i = 0; i < w->n_tensors; i++) {
        char name[64];
        snprintf(name, sizeof name, "g.%s", w->tensor[i].name);
        array a = npy_read(name);
        for (size_t k = 0; k < a.n; k++) sum += (double)((const float *)a.data)[k] * ((const float *)a.data)[k];
        free(a.bytes);
    }
    return sqrt(sum);
}

typedef struct {
    const model_weights *w;
    goal goal;
    array tokens, targets, first;
} sample;

/* Logits of every scale, and the loss from every row's score. */
static void forward(ops_machine *m, const sample *s, double tol) {
    const model_config *c = &s->w->config;
    colm_err err = {0};
    model_state *state = NULL;
    model_graph *g = NULL;
    size_t rows = s->tokens.n, n = rows * c->vocab;
    float *nll = calloc(rows * c->n_chains, 4), *logits = calloc(n, 4);
    graph_params p = {.B = (uint32_t)s->tokens.rows,
                      .T = (uint32_t)s->tokens.cols,
                      .keep_logits = true,
                      .documents = s->first.n > 0,
                      .eos = 0};
    if (!CHECK_OK(model_state_create(m, s->w, c->n_chains, &state, &err), err) ||
        !CHECK_OK(model_graph_create(state, &p, &g, &err), err))
        goto out;
    if (!CHECK_OK(model_graph_score(g, s->tokens.data, s->targets.data, nll, NULL, &err), err)) goto out;
    double loss = 0;
    for (uint32_t i = 0; i < c->n_chains; i++) {
        char name[32];
        snprintf(name, sizeof name, "logits.%u", i + 1);
        array want = npy_read(name);
        if (CHECK(want.n == n) && CHECK_OK(model_graph_logits(g, i + 1, logits, &err), err))
            CHECK(near(name, want.data, logits, n, tol, 0));
        free(want.bytes);
        double sum = 0, has = 0;
        for (size_t r = 0; r < rows; r++)
            if (((const uint32_t *)s->targets.data)[r] != ABI_NO_TARGET) sum += nll[i * rows + r], has++;
        loss += s->goal.lambda[i] * sum / has;
    }
    CHECK_NEAR(loss, s->goal.loss, tol * s->goal.loss);
out:
    model_graph_free(&g);
    model_state_free(&state);
    free(nll), free(logits);
}

/* Gradients of tensors that take no part are plain zeros for the oracle, and not there at all in the engine.
 * Returns how many there are beyond the first n of the table. */
static size_t idle_gradients(const model_weights *w, size_t n) {
    size_t count = 0;
    for (size_t i = n; i < w->n_tensors; i++) {
        char name[64];
        snprintf(name, sizeof name, "g.%s", w->tensor[i].name);
        array a = npy_read(name);
        for (size_t k = 0; k < a.n; k++) CHECK(((const float *)a.data)[k] == 0);
        count += a.n > 0;
        free(a.bytes);
    }
    return count;
}

/* Loss and gradients of the trained tensors, of just those. A loss that ends at a scale below the full one is
 * the training of that scale alone. */
static void backward(ops_machine *m, const sample *s, bool recompute, double tol) {
    uint32_t scale = s->w->config.n_chains;
    while (s->goal.lambda[scale - 1] == 0) scale--;
    colm_err err = {0};
    model_state *state = NULL;
    model_graph *g = NULL;
    model_weights *w = NULL, *grads = NULL;
    graph_report r;
    graph_params p = {.B = (uint32_t)s->tokens.rows,
                      .T = (uint32_t)s->tokens.cols,
                      .train = true,
                      .lambda = s->goal.lambda,
                      .documents = s->first.n > 0,
                      .eos = 0,
                      .recompute = recompute};
    if (!CHECK_OK(model_weights_prefix(s->w, scale, &w, &err), err) ||
        !CHECK_OK(model_weights_create(&w->config, &grads, &err), err) ||
        !CHECK_OK(model_state_create_trained(m, w, s->goal.trained, &state, &err), err) ||
        !CHECK_OK(model_graph_create(state, &p, &g, &err), err) ||
        !CHECK_OK(model_graph_gradients(g, s->tokens.data, s->targets.data, &r, &err), err) ||
        !CHECK_OK(model_state_download_grads(state, grads, &err), err))
        goto out;
    CHECK_NEAR(r.loss, s->goal.loss, tol * s->goal.loss);
    double least = 1e-3 * gradient_norm(s->w);
    size_t trained = 0, agree = 0;
    for (size_t i = 0; i < grads->n_tensors; i++) {
        const model_tensor *t = &grads->tensor[i];
        if (!state->tensor[i].trained) continue;
        char name[64];
        snprintf(name, sizeof name, "g.%s", t->name);
        array want = npy_read(name);
        trained++;
        if (want.rows != t->rows || want.cols != t->cols)
            printf("#   %s: trained here, not by the oracle\n", name);
        else if (near(name, want.data, grads->data + t->off, want.n, tol, least))
            agree++;
        free(want.bytes);
    }
    CHECK(agree == trained);
    CHECK(trained + idle_gradients(s->w, grads->n_tensors) == count_files("g.*.npy"));
out:
    model_graph_free(&g);
    model_state_free(&state);
    model_weights_free(&w);
    model_weights_free(&grads);
}

static void agrees(void) {
    static const struct {
        const char *name;
        double tolerance;
    } machines[] = {{"reference", 1e-6}, {"cpu", 1e-4}, {"gpu", 1e-4}, {"portable", 1e-4}};
    model_weights *w = weights_read();
    if (!w) return;
    sample s = {
        .w = w, .tokens = npy_read("tokens"), .targets = npy_read("targets"), .first = npy_read("first")};
    if (CHECK(s.tokens.n > 0 && s.tokens.n == s.targets.n) && goal_read(&w->config, &s.goal))
        for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
            ops_machine *m = test_machine(machines[i].name);
            if (!m) continue;
            int bad = test_bad_;
            forward(m, &s, machines[i].tolerance);
            for (int recompute = 0; recompute < 2; recompute++)
                backward(m, &s, recompute, machines[i].tolerance);
            if (test_bad_ > bad) printf("#   these on %s\n", machines[i].name);
            ops_close(&m);
        }
    free(s.tokens.bytes), free(s.targets.bytes), free(s.first.bytes);
    model_weights_free(&w);
}

static const char *missing;
static void skipped(void) {
    test_skip(missing);
}

static void oracle(void) {
    char cmd[256];
    snprintf(cmd, sizeof cmd, "/usr/bin/python3 %s/tests/peer/family.py --selftest >/dev/null",
             COLM_SOURCE_DIR);
    CHECK(system(cmd) == 0);
}

/* Every case of `family.py --list`, or those whose names are arguments. */
int main(int argc, char **argv) {
    char cmd[512], name[64];
    missing = getenv("COLM_TEST_NO_PEER") ? "left out by COLM_TEST_NO_PEER" : NULL;
    if (!missing && system("/usr/bin/python3 -c 'import torch' 2>/dev/null"))
        missing = "python3-torch is not installed";
    if (missing) {
        test_run_("family", skipped);
        return test_end();
    }
    if (!mkdtemp(folder)) return 1;
    TEST(oracle);
    snprintf(cmd, sizeof cmd, "/usr/bin/python3 %s/tests/peer/family.py all %s && ls %s", COLM_SOURCE_DIR,
             folder, folder);
    FILE *cases = popen(cmd, "r");
    while (cases && fscanf(cases, "%63s", name) == 1) {
        bool wanted = argc < 2;
        for (int i = 1; i < argc; i++) wanted |= strcmp(argv[i], name) == 0;
        current = name;
        if (wanted) test_run_(name, agrees);
    }
    bool failed = !cases || pclose(cases) || test_count_ < 2;
    snprintf(cmd, sizeof cmd, "rm -r %s", folder);
    if (system(cmd)) printf("# %s stays\n", folder);
    if (failed) printf("Bail out! the oracle failed, or has no such case\n");
    return test_end() || failed;
}
