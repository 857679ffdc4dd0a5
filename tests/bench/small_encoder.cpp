#include "bench/small_encoder.hpp"

#include "backends/models.hpp"

namespace lathe::test {

Model small_encoder() {
    Model model = model_from_text("opset 18\n"
                                  "input %input_ids: int64[N, S]\n"
                                  "input %attention_mask: int64[N, S]\n"
                                  "input %table: float32[64, 16]\n"
                                  "input %wq: float32[16, 16]\n"
                                  "input %wk: float32[16, 16]\n"
                                  "input %wv: float32[16, 16]\n"
                                  "input %gain: float32[16]\n"
                                  "input %shift: float32[16]\n"
                                  "const %split: int64[4] = {0, 0, 2, 8}\n"
                                  "const %whole: int64[3] = {0, 0, 16}\n"
                                  "const %one: float32[1] = {1.0}\n"
                                  "const %least: float32[1] = {-1e30}\n"
                                  "const %heads: int64[2] = {1, 2}\n"
                                  "const %features: int64[1] = {2}\n"
                                  "const %sequence: int64[1] = {1}\n"
                                  "%x = Gather(%table, %input_ids)\n"
                                  "%q0 = MatMul(%x, %wq)\n"
                                  "%k0 = MatMul(%x, %wk)\n"
                                  "%v0 = MatMul(%x, %wv)\n"
                                  "%q1 = Reshape(%q0, %split)\n"
                                  "%k1 = Reshape(%k0, %split)\n"
                                  "%v1 = Reshape(%v0, %split)\n"
                                  "%q = Transpose(%q1) {perm = [0, 2, 1, 3]}\n"
                                  "%k = Transpose(%k1) {perm = [0, 2, 3, 1]}\n"
                                  "%v = Transpose(%v1) {perm = [0, 2, 1, 3]}\n"
                                  "%scores = MatMul(%q, %k)\n"
                                  "%mask = Cast(%attention_mask) {to = 1}\n"
                                  "%outside = Sub(%one, %mask)\n"
                                  "%far = Mul(%outside, %least)\n"
                                  "%bias = Unsqueeze(%far, %heads)\n"
                                  "%masked = Add(%scores, %bias)\n"
                                  "%p = Softmax(%masked) {axis = -1}\n"
                                  "%c0 = MatMul(%p, %v)\n"
                                  "%c1 = Transpose(%c0) {perm = [0, 2, 1, 3]}\n"
                                  "%c = Reshape(%c1, %whole)\n"
                                  "%sum = Add(%x, %c)\n"
                                  "%n = LayerNormalization(%sum, %gain, %shift)\n"
                                  "%inside = Unsqueeze(%mask, %features)\n"
                                  "%kept = Mul(%n, %inside)\n"
                                  "%total = ReduceSum(%kept, %sequence) {keepdims = 0}\n"
                                  "%count = ReduceSum(%mask, %sequence) {keepdims = 1}\n"
                                  "%y = Div(%total, %count)\n"
                                  "output %y: float32[N, 16]\n");
    model.graph.inputs.resize(2); // the others become constants
    add_weights(model, "table", {64, 16}, 1);
    add_weights(model, "wq", {16, 16}, 2);
    add_weights(model, "wk", {16, 16}, 3);
    add_weights(model, "wv", {16, 16}, 4);
    add_weights(model, "gain", {16}, 5);
    add_weights(model, "shift", {16}, 6);
    return model;
}

} // namespace lathe::test
