/* Sums down the columns of a matrix: the gradients of gains and biases.
 *
 * A workgroup makes COLUMNS columns, COLUMN is an invocation's own: a vec4 (TERM), or where the file that includes this
 * says so a float. Before, that file defines what is summed:
 *     vec2 of_row(uint r)                       numbers that a row's columns share
 *     TERM of_column(uint r, uint at, vec2 row) the term of row r in column `at`
 * Strip k of STRIPS sums rows 8k .. 8k+7, then the next 8 STRIPS further on; the strips' sums are added in order. Steps
 * of 8 rows keep long batches below the 65535 turns after which some drivers end an invocation's loops. */
#ifndef COLM_COLUMNS_GLSL
#define COLM_COLUMNS_GLSL

#ifndef TERM
#define TERM vec4
#define COLUMNS 8
#define STRIPS 16
#else
#define COLUMNS 32
#define STRIPS 8
#endif
#define STEP 8u
#if LANES == 8
#undef STRIPS
#define STRIPS 1
#define COLUMN (gl_WorkGroupID.x * 8u + LANE)
#define STRIP 0u
#else
#define COLUMN (gl_WorkGroupID.x * COLUMNS + gl_LocalInvocationID.x)
#define STRIP gl_LocalInvocationID.y
shared TERM column_part[STRIPS][COLUMNS];
#endif
layout(local_size_x = COLUMNS, local_size_y = STRIPS) in;

/* Adds this strip's part of n rows. */
void columns_add(inout TERM sum, uint n, uint at) {
    for (uint r = STEP * STRIP; r < n; r += STEP * STRIPS) {
        uint last = n - 1u;
#if LANES == 8
        vec2 rows = of_row(min(r + LANE, last));
#define OF_ROW(k) subgroupShuffle(rows, k)
#else
#define OF_ROW(k) of_row(min(r + k, last))
#endif
        [[unroll]] for (uint k = 0u; k < STEP; k++) {
            TERM t = of_column(min(r + k, last), at, OF_ROW(k));
            sum += r + k < n ? t : TERM(0);
        }
    }
}

/* The strips' sums together; met by all invocations of the workgroup, good where STRIP is 0. */
TERM columns_join(TERM sum) {
#if LANES != 8
    column_part[STRIP][gl_LocalInvocationID.x] = sum;
    barrier();
    sum = column_part[0][gl_LocalInvocationID.x];
    [[unroll]] for (uint k = 1u; k < uint(STRIPS); k++) sum += column_part[k][gl_LocalInvocationID.x];
#endif
    return sum;
}

#endif
