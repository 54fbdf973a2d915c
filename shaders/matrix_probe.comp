/* Computes nothing of use: compiles where the shader compiler knows cooperative matrices of float16 (BF16 0) or
 * bfloat16 (BF16 1). */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "matrix.glsl"

layout(local_size_x = 1) in;
layout(push_constant) uniform push_block { uint n; };
layout(std430, binding = 0) buffer X_block { uvec2 X[]; };

void main() {
    coopmat<ELEMENT, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> a;
    coopmat<ELEMENT, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> b;
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> c =
        coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
    coopMatLoad(a, X, n, 4, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(b, X, n, 4, gl_CooperativeMatrixLayoutColumnMajor);
    coopMatStore(coopMatMulAdd(a, b, c), X, n, 8, gl_CooperativeMatrixLayoutRowMajor);
}
