#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/eval/cloze.h"
#include "engine/eval/internal.h"

enum { ITEMS = 200, SENTENCES = 3, CHOICES = 4, CHOICES_MAX = 16, SENTENCES_MAX = 64, TRIES = 1024 };

static span sentence(const sentences *all, size_t i) {
    return (span){all->bytes.text + all->at[i].begin, all->at[i].n};
}

static bool same(const sentences *all, size_t i, size_t k) {
    span a = sentence(all, i), b = sentence(all, k);
    return all->at[i].hash == all->at[k].hash && a.n == b.n && memcmp(a.bytes, b.bytes, a.n) == 0;
}

// Places where k + 1 sentences follow each other, no sentence in two of them.
static colm_status find_places(const sentences *all, size_t k, size_t **ret, size_t *ret_n, colm_err *err) {
    size_t n = 0, *place = mem_alloc(all->n / (k + 1), sizeof *place);
    if (!place) return err_nomem(err, all->n * sizeof *place, "places of items");
    for (size_t i = 0; i + k < all->n;) {
        size_t last = i;
        while (last < i + k && all->at[last + 1].run == all->at[i].run) last++;
        if (last == i + k) place[n++] = i;
        i = last + 1;
    }
    *ret = place;
    *ret_n = n;
    return COLM_OK;
}

// An item: sentences first .. first+k-1 are the context, first+k is true.
typedef struct {
    size_t first, k;
    uint32_t n_choices, gold;
    size_t choice[CHOICES_MAX]; // sentences
} draft;

// Draws what is neither near the item nor equal to one of its sentences.
static colm_status draw_distractors(const sentences *all, uint64_t seed, uint64_t item, draft *d,
                                    colm_err *err) {
    const rng_stream r = rng_open(seed, "cloze distractors");
    const size_t truth = d->first + d->k, near = 2 * (d->k + 1);
    uint32_t done = 0;
    for (uint64_t i = 0; i < TRIES && done < d->n_choices; i++) {
        if (done == d->gold) {
            d->choice[done++] = truth;
            continue;
        }
        size_t x = (size_t)rng_below(&r, item * TRIES + i, all->n);
        bool fits = x + near < d->first || x > truth + near || all->at[x].doc != all->at[truth].doc;
        for (size_t c = d->first; c <= truth && fits; c++) fits = !same(all, x, c);
        for (uint32_t c = 0; c < done && fits; c++) fits = !same(all, x, d->choice[c]);
        if (fits) d->choice[done++] = x;
    }
    if (done == d->n_choices) return COLM_OK;
    return err_set(
        err, COLM_E_INPUT,
        "cloze: too few different sentences for %u choices among %zu held-out ones; hold out more text",
        d->n_choices, all->n);
}

static colm_status add_draft(const sentences *all, const draft *d, task_builder *b, str *query, str *choice,
                             colm_err *err) {
    query->len = 0;
    for (size_t i = 0; i < d->k; i++) {
        span t = sentence(all, d->first + i);
        if (i) str_add(query, " ");
        str_addn(query, t.bytes, t.n);
    }
    if (query->failed) return err_nomem(err, query->len, "a context");
    colm_status s = task_add_item(b, d->n_choices, d->gold, err);
    for (uint32_t c = 0; c < d->n_choices && !s; c++) {
        span bare = sentence(all, d->choice[c]);
        choice->len = 0;
        str_add(choice, " ");
        str_addn(choice, bare.bytes, bare.n);
        s = choice->failed ? err_nomem(err, bare.n, "a choice")
                           : task_add_choice(b, (span){query->text, query->len},
                                             (span){choice->text, choice->len}, bare, err);
    }
    return s;
}

colm_status cloze_build(const eval_task_params *p, task_builder *b, colm_err *err) {
    const uint32_t items = p->items ? p->items : ITEMS, choices = p->choices ? p->choices : CHOICES;
    const uint32_t k = p->sentences ? p->sentences : SENTENCES;
    if (!p->corpus) return err_set(err, COLM_E_INPUT, "cloze needs a corpus");
    if (choices < 2 || choices > CHOICES_MAX)
        return err_set(err, COLM_E_INPUT, "choices: %u is not in 2 .. %d", choices, CHOICES_MAX);
    if (k > SENTENCES_MAX)
        return err_set(err, COLM_E_INPUT, "sentences: %u is not in 1 .. %d", k, SENTENCES_MAX);
    const rng_stream which = rng_open(p->seed, "cloze items"), where = rng_open(p->seed, "cloze gold");
    size_t *place = NULL, n = 0;
    str query = {0}, choice = {0};
    sentences all = {0};
    colm_status s = COLM_OK;
    for (size_t i = 0; i < corpus_heldout_docs(p->corpus) && !s; i++) {
        span doc;
        doc.bytes = corpus_heldout_doc(p->corpus, i, &doc.n);
        s = sentences_add(&all, doc, i, err);
    }
    if (!s) s = find_places(&all, k, &place, &n, err);
    if (!s && n < items)
        s = err_set(err, COLM_E_INPUT,
                    "cloze: the %zu usable sentences held out of corpus \"%s\" give %zu items of %u + 1 "
                    "sentences, %u were "
                    "asked; lower items or hold out more text",
                    all.n, corpus_name(p->corpus), n, k, items);
    for (uint32_t i = 0; i < items && !s; i++) {
        const size_t pick = i + (size_t)rng_below(&which, i, n - i), first = place[pick];
        place[pick] = place[i];
        draft d = {
            .first = first, .k = k, .n_choices = choices, .gold = (uint32_t)rng_below(&where, i, choices)};
        s = draw_distractors(&all, p->seed, i, &d, err);
        if (!s) s = add_draft(&all, &d, b, &query, &choice, err);
    }
    free(place);
    str_done(&query);
    str_done(&choice);
    sentences_done(&all);
    return s;
}
