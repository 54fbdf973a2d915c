/* Small kernels that the tests of this room run. */
#ifndef COLM_TESTS_GPU_KERNELS_H
#define COLM_TESTS_GPU_KERNELS_H

#define HEAD "#version 450\n"

/* c = scale * a + b over n elements, through storage buffers; flat index over x and y workgroups. */
#define ADD                                                         \
    HEAD "#include \"abi.glsl\"\n"                                  \
         "layout(local_size_x = 64) in;\n"                          \
         "layout(binding = 0) readonly buffer A { float a[]; };\n"  \
         "layout(binding = 1) readonly buffer B { float b[]; };\n"  \
         "layout(binding = 2) writeonly buffer C { float c[]; };\n" \
         "void main() {\n"                                          \
         "    uint i = gl_GlobalInvocationID.x;\n"                  \
         "    if (i < p.n) c[i] = p.scale * a[i] + b[i] OP;\n"      \
         "}\n"
#define ABI "layout(push_constant) uniform P { uint n; float scale; } p;\n"

/* b = a reversed, read as texels. */
#define FLIP                                                                \
    HEAD "layout(local_size_x = 32) in;\n"                                  \
         "layout(push_constant) uniform P { uint n; } p;\n"                 \
         "layout(binding = 8) uniform samplerBuffer a;\n"                   \
         "layout(binding = 1) writeonly buffer B { vec4 b[]; };\n"          \
         "void main() {\n"                                                  \
         "    uint i = gl_GlobalInvocationID.x;\n"                          \
         "    if (i < p.n) b[i] = texelFetch(a, int(p.n - 1u - i)).wzyx;\n" \
         "}\n"

/* a = b (turned by one) / 2 + i: a chain of these between two buffers needs a barrier between each two. */
#define STEP                                                             \
    HEAD "layout(local_size_x = 64) in;\n"                               \
         "layout(push_constant) uniform P { uint n; } p;\n"              \
         "layout(binding = 0) readonly buffer A { float a[]; };\n"       \
         "layout(binding = 1) writeonly buffer B { float b[]; };\n"      \
         "void main() {\n"                                               \
         "    uint i = gl_GlobalInvocationID.x;\n"                       \
         "    if (i < p.n) b[i] = a[(i + 1u) % p.n] * 0.5 + float(i);\n" \
         "}\n"

#endif
