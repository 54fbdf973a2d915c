/* Generality: a model of one chain is the ordinary Llama, written here a second time from its formulas, in
 * double.
 *
 *     h = x / sqrt(mean x^2 + eps) g        q, k, v = W h, heads of q and k turned by their position
 *     x += W_o softmax(q k^T / sqrt(hd)) v  x += W_2 (silu(W_1 h') * W_3 h')  logits = W h''
 *
 * Scale i of many chains is the same network over matrices whose upper blocks are zero, each chain's columns
 * normed on their own: checked with the same code. Only what the engine hands to devices as float (the table of
 * rotations, eps, the scale of attention) is rounded to float here too. */
#include "engine/model/graph_build.h"
#include "tests/model/runs.h"

#define MOST_T 40

/* y = W x for the chain rows of one tensor kind: rows of chain i read the inputs of chains 1..i. */
static void linear(const model_weights *w, param_kind k, uint32_t layer, uint32_t scale, const double *x,
                   double *y) {
    for (uint32_t i = 0; i < scale; i++) {
        const model_tensor *t = model_weights_at(w, k, layer, i);
        const float *W = w->data + t->off;
        for (uint32_t r = 0; r < t->rows; r++, y++) {
            *y = 0;
            for (uint32_t c = 0; c < t->cols; c++) *y += (double)W[(size_t)r * t->cols + c] * x[c];
        }
    }
}

static void norm(const model_weights *w, param_kind k, uint32_t layer, uint32_t scale, const double *x,
                 double *y) {
    for (uint32_t i = 0; i < scale; i++) {
        const model_tensor *t = model_weights_at(w, k, layer, i);
        double square = 0;
        for (uint32_t c = 0; c < t->cols; c++) square += x[c] * x[c];
        double root = sqrt(square / t->cols + (float)w->config.norm_eps);
        for (uint32_t c = 0; c < t->cols; c++) *y++ = x[c] / root * w->data[t->off + c];
        x += t->cols;
    }
}

/* Rotates the pairs (i, i + hd/2) of every head by position * theta^(-2i/hd). */
static void rotate(const model_config *c, uint32_t heads, uint32_t position, double *x) {
    uint32_t half = c->head_dim / 2;
    for (uint32_t h = 0; h < heads; h++, x += c->head_dim)
        for (uint32_t i = 0; i < half; i++) {
            double angle = position * pow(c->rope_theta, -2.0 * i / c->head_dim);
            double co = (float)cos(angle), si = (float)sin(angle), a = x[i], b = x[i + half];
            x[i] = a * co - b * si;
            x[i + half] = b * co + a * si;
        }
}

typedef struct {
    uint32_t width, heads, kv_heads, ffn;
    uint32_t reads[64]; /* the key-value head of each query head */
} sizes;

static sizes sizes_of(const model_config *c, uint32_t scale) {
    sizes s = {0};
    for (uint32_t i = 0; i < scale; i++) {
        const model_chain *ch = &c->chain[i];
        for (uint32_t j = 0; j < ch->heads; j++)
            s.reads[s.heads + j] = s.kv_heads + j / (ch->heads / ch->kv_heads);
        s.width += ch->width, s.heads += ch->heads, s.kv_heads += ch->kv_heads, s.ffn += ch->ffn;
    }
    return s;
}

static double *reals(size_t n) {
    double *x = calloc(n, sizeof *x);
    if (!x) abort();
    return x;
}

/* o of the last of n positions. */
static void attend(const model_config *c, const sizes *z, uint32_t n, const double *q, const double *k,
                   const double *v, double *o) {
    double weight[MOST_T], scale = (float)(1 / sqrt(c->head_dim));
    uint32_t hd = c->head_dim, ld = z->kv_heads * hd;
    for (uint32_t h = 0; h < z->heads; h++) {
        double sum = 0;
        for (uint32_t s = 0; s < n; s++) {
            double dot = 0;
            for (uint32_t e = 0; e < hd; e++) dot += q[h * hd + e] * k[s * ld + z->reads[h] * hd + e];
            sum += weight[s] = exp(dot * scale);
        }
        for (uint32_t e = 0; e < hd; e++) {
            o[h * hd + e] = 0;
            for (uint32_t s = 0; s < n; s++)
                o[h * hd + e] += weight[s] / sum * v[s * ld + z->reads[h] * hd + e];
        }
    }
}

/* Logits of one sequence at a scale: T rows of V. */
static void dense(const model_weights *w, uint32_t scale, const uint32_t *tokens, uint32_t T, double *logits) {
    const model_config *c = &w->config;
    const sizes z = sizes_of(c, scale);
    uint32_t D = z.width, Q = z.heads * c->head_dim, K = z.kv_heads * c->head_dim, F = z.ffn, V = c->vocab;
    double *x = reals((size_t)T * D), *h = reals(D), *q = reals(Q), *k = reals((size_t)T * K),
           *v = reals((size_t)T * K), *o = reals(Q), *d = reals(D), *a = reals(F), *b = reals(F);
    for (uint32_t p = 0; p < T; p++)
        for (uint32_t i = 0, at = p * D; i < scale; i++) {
            const model_tensor *t = model_weights_at(w, PARAM_EMBED, 0, i);
            for (uint32_t e = 0; e < t->cols; e++) x[at++] = w->data[t->off + (size_t)tokens[p] * t->cols + e];
        }
    for (uint32_t l = 0; l < c->layers; l++)
        for (uint32_t p = 0; p < T; p++) {
            double *row = x + (size_t)p * D;
            norm(w, PARAM_NORM1, l, scale, row, h);
            linear(w, PARAM_Q, l, scale, h, q);
            linear(w, PARAM_K, l, scale, h, k + p * K);
            linear(w, PARAM_V, l, scale, h, v + p * K);
            rotate(c, z.heads, p, q);
            rotate(c, z.kv_heads, p, k + p * K);
            attend(c, &z, p + 1, q, k, v, o);
            linear(w, PARAM_O, l, scale, o, d);
            for (uint32_t e = 0; e < D; e++) row[e] += d[e];
            norm(w, PARAM_NORM2, l, scale, row, h);
            linear(w, PARAM_W1, l, scale, h, a);
            linear(w, PARAM_W3, l, scale, h, b);
            for (uint32_t e = 0; e < F; e++) a[e] *= b[e] / (1 + exp(-a[e]));
            linear(w, PARAM_W2, l, scale, a, d);
            for (uint32_t e = 0; e < D; e++) row[e] += d[e];
        }
    for (uint32_t p = 0; p < T; p++) {
        norm(w, PARAM_NORMF, 0, scale, x + (size_t)p * D, h);
        const double *part = h;
        for (uint32_t i = 0; i < scale; i++) {
            const model_tensor *t = model_weights_at(w, PARAM_HEAD, 0, i);
            for (uint32_t y = 0; y < V; y++)
                for (uint32_t e = 0; e < t->cols; e++)
                    logits[(size_t)p * V + y] += w->data[t->off + (size_t)y * t->cols + e] * part[e];
            part += t->cols;
        }
    }
    free(x), free(h), free(q), free(k), free(v), free(o), free(d), free(a), free(b);
}

static double log_loss(const double *logits, uint32_t V, uint32_t target) {
    double sum = 0;
    for (uint32_t v = 0; v < V; v++) sum += exp(logits[v] - logits[target]);
    return log(sum);
}

/* The engine's logits and losses of every scale against the formulas: the reference's own doubles within 1e-10,
 * a device's floats relative to the largest logit within 1e-4. */
static void compare(ops_machine *m, const model_weights *w, uint32_t B, uint32_t T) {
    colm_err err = {0};
    uint32_t C = w->config.n_chains, V = w->config.vocab, rows = B * T;
    uint32_t *ids = calloc(2 * rows, sizeof *ids);
    float *nll = calloc((size_t)C * rows, sizeof *nll), *got = calloc((size_t)rows * V, sizeof *got);
    model_state *s = NULL;
    model_graph *g = NULL;
    graph_params gp = {.B = B, .T = T, .keep_logits = true};
    test_tokens(11, V, rows, ids, ids + rows);
    if (!CHECK_OK(model_state_create(m, w, C, &s, &err), err) ||
        !CHECK_OK(model_graph_create(s, &gp, &g, &err), err) ||
        !CHECK_OK(model_graph_score(g, ids, ids + rows, nll, NULL, &err), err))
        goto out;
    const double *pool = ops_doubles(m, g->pool[g->logits.pool]), *losses = ops_doubles(m, model_graph_nll(g));
    for (uint32_t i = 1; i <= C; i++) {
        double *want = reals((size_t)rows * V), worst = 0, largest = 0;
        for (uint32_t b = 0; b < B; b++) dense(w, i, ids + b * T, T, want + (size_t)b * T * V);
        CHECK_OK(model_graph_logits(g, i, got, &err), err);
        uint64_t at = g->logits.off + (i - 1) * ((g->logits.len + 63) / 64 * 64);
        for (uint32_t r = 0; r < rows; r++)
            for (uint32_t v = 0; v < V; v++) {
                double x = want[(size_t)r * V + v];
                double y = pool ? pool[at + (uint64_t)r * g->logits_ld + v] : got[(size_t)r * V + v];
                worst = run_worse(worst, fabs(x - y));
                if (fabs(x) > largest) largest = fabs(x);
            }
        if (!CHECK(worst <= (pool ? 1e-10 : 1e-4 * largest)))
            printf("#   scale %u: error %g, largest logit %g\n", i, worst, largest);
        CHECK(largest > 0.1);
        worst = 0;
        for (uint32_t r = 0; r < rows; r++) {
            double loss = log_loss(want + (size_t)r * V, V, ids[rows + r]);
            double mine = pool ? losses[(i - 1) * g->nll_stride + r] : nll[(i - 1) * (size_t)rows + r];
            worst = run_worse(worst, fabs(mine - loss));
        }
        if (!CHECK(worst <= (pool ? 1e-10 : 1e-4 * (1 + largest))))
            printf("#   scale %u: error %g of a row's loss\n", i, worst);
        free(want);
    }
out:
    model_graph_free(&g);
    model_state_free(&s);
    free(ids), free(nll), free(got);
}

/* One chain of every size in the shapes: the ordinary model. */
static void generality(ops_machine *m, const run_shape *shape) {
    for (uint32_t i = 0; i < shape->n_chains; i++) {
        run_shape one = *shape;
        one.n_chains = 1;
        one.chain[0] = shape->chain[i];
        model_weights *w = run_weights(&one);
        compare(m, w, 2, 13);
        compare(m, w, 3, 1);
        model_weights_free(&w);
    }
}

static void blocks(ops_machine *m, const run_shape *shape) {
    model_weights *w = run_weights(shape);
    compare(m, w, 2, 13);
    compare(m, w, 1, MOST_T);
    model_weights_free(&w);
}

static void one_chain_is_an_ordinary_llama(void) {
    run_everywhere(generality);
}
static void scales_are_networks_of_lower_blocks(void) {
    run_everywhere(blocks);
}

int main(void) {
    TEST(one_chain_is_an_ordinary_llama);
    TEST(scales_are_networks_of_lower_blocks);
    return test_end();
}
