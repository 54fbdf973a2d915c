/* What the norm of heads and its gradients share: by vec4s where TEXELS are, which wants heads of whole vec4s, else by
 * floats, whatever the head's width. KIND comes from the call (abi_head_norm): 1 takes 1 + g for the gain. */
#ifndef COLM_HEAD_NORM_GLSL
#define COLM_HEAD_NORM_GLSL

#if TEXELS
#define UNIT 4u
#define VALUE vec4
#define READS(t, name) IN4(t, name)
#define AT(name, i) LOAD4(name, i)
#else
#define UNIT 1u
#define VALUE float
#define READS(t, name) IN(t, float, name)
#define AT(name, i) GET(name, i)
#endif

#if KIND == 1
#define GAIN(g) (1.0 + (g))
#else
#define GAIN(g) (g)
#endif

#define HEAD_X(r, h) (((r) * p.ldx + p.xo + (h) * p.hd) / UNIT)
#define HEAD_Y(r, h) (((r) * p.ldy + p.yo + (h) * p.hd) / UNIT)
#define HEAD_STAT(r, h) (p.so + (h) * p.rows + (r))
/* Heads of a row: in turn, or spread over the workgroups of y. */
#define EACH_HEAD(h) for (uint h = gl_WorkGroupID.y; h < p.heads; h += gl_NumWorkGroups.y)

#endif
