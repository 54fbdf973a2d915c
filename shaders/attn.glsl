/* Where causal attention finds its tensors: query head h reads key-value head h / (heads / kv_heads). Rows are those of the
 * whole matrix, first the sequence's first row. */
PUSH(attn)
#define LOG2E 1.4426950408889634
#define LN2 0.6931471805599453
#define MASKED (-1e30) /* below every score, and far from overflow when one is taken from another */

uint q_at(uint row, uint h) { return row * p.ldq + p.qo + h * HD; }
uint o_at(uint row, uint h) { return row * p.ldo + p.oo + h * HD; }
uint k_at(uint row, uint kv) { return row * p.ldk + p.ko + kv * HD; }
uint stat_at(uint row, uint h) { return p.so + h * p.rows + row; }

/* Natural logarithm of l 2^m, l >= 1. Some drivers' log2 is good to 1e-6 only, their exp2 to the last bits: one Newton
 * step on 2^y = l. */
float log_sum(float m, float l) {
    float y = log2(l);
    return (m + y) * LN2 + (l * exp2(-y) - 1.0);
}

/* Workgroup x (folded) is tile number tile_of of a sequence, y the head. */
uint tile_count(uint rows) { return (p.T + rows - 1u) / rows; }
