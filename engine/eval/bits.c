#include "engine/eval/internal.h"

// Held-out documents in order. The last one is cut to max_bytes, before a character rather than in it.
colm_status bits_build(const eval_task_params *p, task_builder *b, colm_err *err) {
    if (!p->corpus) return err_set(err, COLM_E_INPUT, "bits_per_byte needs a corpus");
    uint64_t left = p->max_bytes ? p->max_bytes : UINT64_MAX;
    size_t n_docs = corpus_heldout_docs(p->corpus);
    if (p->items && n_docs > p->items) n_docs = p->items;
    for (size_t i = 0; i < n_docs && left; i++) {
        span doc;
        doc.bytes = corpus_heldout_doc(p->corpus, i, &doc.n);
        if (doc.n > left) {
            size_t n = (size_t)left;
            for (int back = 0; back < 3 && n > 1 && ((unsigned char)doc.bytes[n] & 0xC0) == 0x80; back++) n--;
            doc.n = n;
            left = n;
        }
        left -= doc.n;
        colm_status s = task_add_document(b, doc, err);
        if (s) return s;
    }
    return COLM_OK;
}
