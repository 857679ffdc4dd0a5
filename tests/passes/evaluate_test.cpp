#include "passes/evaluate.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graph/text.hpp"

namespace lathe {
namespace {

struct Case {
    const char* title;
    const char* constants; ///< named a, b, c, ... in the order of the node's inputs; "-" is an omitted input
    const char* node;
    const char* expected; ///< constants named as the node's outputs; nullptr: refused
    std::int64_t opset = 18;
};

Result<std::vector<Tensor>> run(const Case& each) {
    const auto model = parse_graph_text(std::string(each.constants) + "\n" + each.node);
    if (!model) return model.error();
    const Node& node = *model->graph.nodes.front();
    std::vector<const Tensor*> inputs;
    for (const std::string& name : node.inputs)
        inputs.push_back(model->graph.initializer(name));
    return evaluate(node, inputs, {each.opset, std::size_t{1} << 16});
}

/// As text, so that NaN and the sign of nought are compared too.
std::string text_of(const std::vector<std::pair<std::string, Tensor>>& tensors) {
    Model model;
    for (const auto& [name, tensor] : tensors)
        model.graph.initializers.emplace(name, tensor);
    return print(model, {.full_constants = true});
}

const Case cases[] = {
    {"one of three places", "const %a: int64[2] = {2, -3}\nconst %b: int64[] = {3}\nconst %c: int32[2] = {5, 9}",
     "%y = OneHot(%a, %b, %c)", "const %y: int32[2, 3] = {5, 5, 9, 9, 5, 5}"},
    {"places along the first axis, and none out of bounds",
     "const %a: int64[2] = {1, 7}\nconst %b: int64[1] = {2}\nconst %c: float32[2] = {0.0, 1.0}",
     "%y = OneHot(%a, %b, %c) {axis = 0}", "const %y: float32[2, 2] = {0.0, 0.0, 1.0, 0.0}"},
    {"places of a negative depth",
     "const %a: int64[2] = {1, 0}\nconst %b: int64[1] = {-2}\nconst %c: float32[2] = {0.0, 1.0}",
     "%y = OneHot(%a, %b, %c)", nullptr},
    {"broadcast", "const %a: float32[2, 1] = {1.0, 2.0}\nconst %b: float32[3] = {10.0, 20.0, 30.0}", "%y = Add(%a, %b)",
     "const %y: float32[2, 3] = {11.0, 21.0, 31.0, 12.0, 22.0, 32.0}"},
    {"product of a broadcast batch",
     "const %a: float32[2, 1, 2] = {1.0, 2.0, 3.0, 4.0}\nconst %b: float32[2, 1] = {10.0, 1.0}", "%y = MatMul(%a, %b)",
     "const %y: float32[2, 1, 1] = {12.0, 34.0}"},
    {"product without rows", "const %a: float32[1099511627776, 0, 1] = {}\nconst %b: float32[1, 1] = {1.0}",
     "%y = MatMul(%a, %b)", "const %y: float32[1099511627776, 0, 1] = {}"},
    {"product of vectors", "const %a: float32[2] = {1.0, 2.0}\nconst %b: float32[2] = {3.0, 4.0}",
     "%y = MatMul(%a, %b)", "const %y: float32[] = {11.0}"},
    {"product that does not fit", "const %a: float32[1, 2] = {1.0, 2.0}\nconst %b: float32[3, 1] = {1.0, 1.0, 1.0}",
     "%y = MatMul(%a, %b)", nullptr},
    {"product of integers", "const %a: int64[1, 1] = {1}\nconst %b: int64[1, 1] = {1}", "%y = MatMul(%a, %b)", nullptr},
    {"normalisation by the input's own statistics",
     "const %a: float32[1, 1, 2] = {1.0, 5.0}\nconst %b: float32[1] = {2.0}\nconst %c: float32[1] = {1.0}\n"
     "const %d: float32[1] = {0.0}\nconst %e: float32[1] = {1.0}",
     "%y, %m, %v = BatchNormalization(%a, %b, %c, %d, %e) {training_mode = 1, epsilon = 0.0, momentum = 0.5}",
     "const %m: float32[1] = {1.5}\nconst %v: float32[1] = {2.5}\nconst %y: float32[1, 1, 2] = {-1.0, 3.0}"},
    {"normalisation by given statistics",
     "const %a: float32[1, 2] = {1.0, 5.0}\nconst %b: float32[2] = {2.0, 1.0}\nconst %c: float32[2] = {1.0, 0.0}\n"
     "const %d: float32[2] = {0.0, 1.0}\nconst %e: float32[2] = {4.0, 16.0}",
     "%y = BatchNormalization(%a, %b, %c, %d, %e) {epsilon = 0.0}", "const %y: float32[1, 2] = {2.0, 1.0}"},
    {"normalisation of rows",
     "const %a: float32[2, 2] = {1.0, 5.0, 3.0, 3.0}\nconst %b: float32[2] = {2.0, 1.0}\n"
     "const %c: float32[2] = {0.5, 0.0}",
     "%y = LayerNormalization(%a, %b, %c) {epsilon = 0.0000001}", "const %y: float32[2, 2] = {-1.5, 1.0, 0.5, 0.0}"},
    {"normalisation of all but the first axis",
     "const %a: float32[1, 2, 1] = {1.0, 5.0}\nconst %b: float32[2, 1] = {1.0, 1.0}",
     "%y = LayerNormalization(%a, %b) {axis = 1, epsilon = 0.0000001}", "const %y: float32[1, 2, 1] = {-1.0, 1.0}"},
    {"normalisation whose factors are of another size",
     "const %a: float32[1, 2] = {1.0, 5.0}\nconst %b: float32[1] = {1.0}", "%y = LayerNormalization(%a, %b)", nullptr},
    {"elements are gathered", "const %a: float32[2, 2] = {1.0, 2.0, 3.0, 4.0}\nconst %b: int64[1, 2] = {1, -2}",
     "%y = GatherElements(%a, %b)", "const %y: float32[1, 2] = {3.0, 2.0}"},
    {"elements beyond the axis", "const %a: float32[2] = {1.0, 2.0}\nconst %b: int64[1] = {2}",
     "%y = GatherElements(%a, %b)", nullptr},
    {"elements are scattered",
     "const %a: int64[2, 2] = {1, 2, 3, 4}\nconst %b: int64[2, 1] = {1, 0}\nconst %c: int64[2, 1] = {9, 8}",
     "%y = ScatterElements(%a, %b, %c) {axis = 1}", "const %y: int64[2, 2] = {1, 9, 8, 4}"},
    {"blocks are gathered", "const %a: float32[2, 2] = {1.0, 2.0, 3.0, 4.0}\nconst %b: int64[1, 1] = {1}",
     "%y = GatherND(%a, %b)", "const %y: float32[1, 2] = {3.0, 4.0}"},
    {"blocks behind a batch axis", "const %a: float32[2, 2] = {1.0, 2.0, 3.0, 4.0}\nconst %b: int64[2, 1] = {1, 0}",
     "%y = GatherND(%a, %b) {batch_dims = 1}", "const %y: float32[2] = {2.0, 3.0}"},
    {"integers wrap", "const %a: int8[1] = {127}\nconst %b: int8[1] = {1}", "%y = Add(%a, %b)",
     "const %y: int8[1] = {-128}"},
    {"int64 wraps", "const %a: int64[] = {9223372036854775807}\nconst %b: int64[] = {2}", "%y = Mul(%a, %b)",
     "const %y: int64[] = {-2}"},
    {"integer division truncates", "const %a: int64[2] = {-7, 7}\nconst %b: int64[] = {2}", "%y = Div(%a, %b)",
     "const %y: int64[2] = {-3, 3}"},
    {"division by zero", "const %a: int64[1] = {1}\nconst %b: int64[1] = {0}", "%y = Div(%a, %b)", nullptr},
    {"least integer by -1", "const %a: int64[] = {-9223372036854775808}\nconst %b: int64[] = {-1}", "%y = Div(%a, %b)",
     nullptr},
    {"mod follows the divisor's sign", "const %a: int64[2] = {-7, 7}\nconst %b: int64[2] = {3, -3}", "%y = Mod(%a, %b)",
     "const %y: int64[2] = {2, -2}"},
    {"fmod follows the dividend's", "const %a: float32[1] = {-7.0}\nconst %b: float32[1] = {3.0}",
     "%y = Mod(%a, %b) {fmod = 1}", "const %y: float32[1] = {-1.0}"},
    {"pow with another exponent type", "const %a: float32[2] = {2.0, 3.0}\nconst %b: int64[] = {2}", "%y = Pow(%a, %b)",
     "const %y: float32[2] = {4.0, 9.0}"},
    {"half rounds once", "const %a: float16[1] = {2048.0}\nconst %b: float16[1] = {1.0}", "%y = Add(%a, %b)",
     "const %y: float16[1] = {2048.0}"},
    {"bfloat16", "const %a: bfloat16[1] = {1.0}\nconst %b: bfloat16[1] = {2.0}", "%y = Mul(%a, %b)",
     "const %y: bfloat16[1] = {2.0}"},
    {"min keeps NaN", "const %a: float32[2] = {nan, 1.0}\nconst %b: float32[1] = {0.0}", "%y = Min(%a, %b)",
     "const %y: float32[2] = {nan, 0.0}"},
    {"shapes that do not fit", "const %a: float32[2] = {1.0, 2.0}\nconst %b: float32[3] = {1.0, 2.0, 3.0}",
     "%y = Add(%a, %b)", nullptr},
    {"uint64 has no arithmetic", "const %a: uint64[1] = {1}", "%y = Add(%a, %a)", nullptr},
    {"comparison", "const %a: int32[3] = {1, 2, 3}\nconst %b: int32[] = {2}", "%y = GreaterOrEqual(%a, %b)",
     "const %y: bool[3] = {false, true, true}"},
    {"where", "const %a: bool[2] = {true, false}\nconst %b: int64[2, 1] = {1, 2}\nconst %c: int64[] = {0}",
     "%y = Where(%a, %b, %c)", "const %y: int64[2, 2] = {1, 0, 2, 0}"},
    {"lower triangle", "const %a: int64[2, 3] = {1, 2, 3, 4, 5, 6}", "%y = Trilu(%a) {upper = 0}",
     "const %y: int64[2, 3] = {1, 0, 0, 4, 5, 0}"},
    {"upper triangle above the diagonal",
     "const %a: float32[2, 2, 2] = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}\nconst %k: int64[] = {1}",
     "%y = Trilu(%a, %k)", "const %y: float32[2, 2, 2] = {0.0, 2.0, 0.0, 0.0, 0.0, 6.0, 0.0, 0.0}"},
    {"cast truncates", "const %a: float32[3] = {-1.9, 1.9, 0.0}", "%y = Cast(%a) {to = 7}",
     "const %y: int64[3] = {-1, 1, 0}"},
    {"cast to bool", "const %a: float32[3] = {0.5, 0.0, nan}", "%y = Cast(%a) {to = 9}",
     "const %y: bool[3] = {true, false, true}"},
    {"cast out of range", "const %a: float32[1] = {300.0}", "%y = Cast(%a) {to = 2}", nullptr},
    {"cast of NaN to integer", "const %a: float32[1] = {nan}", "%y = Cast(%a) {to = 6}", nullptr},
    {"clip by inputs, upside down",
     "const %a: float32[2] = {0.0, 9.0}\nconst %b: float32[] = {5.0}\nconst %c: "
     "float32[] = {1.0}",
     "%y = Clip(%a, %b, %c)", "const %y: float32[2] = {1.0, 1.0}"},
    {"clip by attributes", "const %a: float32[2] = {-1.0, 9.0}", "%y = Clip(%a) {min = 0.0, max = 6.0}",
     "const %y: float32[2] = {0.0, 6.0}", 10},
    {"round to even", "const %a: float32[4] = {0.5, 1.5, 2.5, -0.5}", "%y = Round(%a)",
     "const %y: float32[4] = {0.0, 2.0, 2.0, -0.0}"},
    {"not", "const %a: bool[2] = {true, false}", "%y = Not(%a)", "const %y: bool[2] = {false, true}"},
    {"sqrt of integers", "const %a: int64[1] = {4}", "%y = Sqrt(%a)", nullptr},
    {"shape with start and end", "const %a: float32[1, 0, 3] = {}", "%y = Shape(%a) {start = -2, end = 10}",
     "const %y: int64[2] = {0, 3}"},
    {"reshape with 0 and -1", "const %a: int64[2, 3] = {1, 2, 3, 4, 5, 6}\nconst %b: int64[3] = {0, -1, 1}",
     "%y = Reshape(%a, %b)", "const %y: int64[2, 3, 1] = {1, 2, 3, 4, 5, 6}"},
    {"reshape that does not fit", "const %a: int64[3] = {1, 2, 3}\nconst %b: int64[2] = {2, -1}",
     "%y = Reshape(%a, %b)", nullptr},
    {"reshape overflow", "const %a: int64[1] = {1}\nconst %b: int64[3] = {4294967296, 4294967296, -1}",
     "%y = Reshape(%a, %b)", nullptr},
    {"flatten", "const %a: int64[1, 2, 2] = {1, 2, 3, 4}", "%y = Flatten(%a) {axis = -1}",
     "const %y: int64[2, 2] = {1, 2, 3, 4}"},
    {"squeeze by attribute", "const %a: int64[1, 2, 1] = {1, 2}", "%y = Squeeze(%a) {axes = [-1]}",
     "const %y: int64[1, 2] = {1, 2}", 11},
    {"squeeze all", "const %a: int64[1, 2, 1] = {1, 2}", "%y = Squeeze(%a)", "const %y: int64[2] = {1, 2}"},
    {"unsqueeze by input", "const %a: int64[2] = {1, 2}\nconst %b: int64[2] = {-1, 0}", "%y = Unsqueeze(%a, %b)",
     "const %y: int64[1, 2, 1] = {1, 2}"},
    {"transpose", "const %a: int8[2, 3] = {1, 2, 3, 4, 5, 6}", "%y = Transpose(%a)",
     "const %y: int8[3, 2] = {1, 4, 2, 5, 3, 6}"},
    {"transpose that repeats", "const %a: int8[2, 3] = {1, 2, 3, 4, 5, 6}", "%y = Transpose(%a) {perm = [0, 0]}",
     nullptr},
    {"expand", "const %a: int64[2, 1] = {1, 2}\nconst %b: int64[2] = {1, 2}", "%y = Expand(%a, %b)",
     "const %y: int64[2, 2] = {1, 1, 2, 2}"},
    {"expand beyond the limit", "const %a: int64[1] = {1}\nconst %b: int64[1] = {1000000000}", "%y = Expand(%a, %b)",
     nullptr},
    {"concat on the inner axis", "const %a: int64[2, 1] = {1, 2}\nconst %b: int64[2, 2] = {3, 4, 5, 6}",
     "%y = Concat(%a, %b) {axis = -1}", "const %y: int64[2, 3] = {1, 3, 4, 2, 5, 6}"},
    {"concat of nothing", "const %a: int64[0, 1] = {}\nconst %b: int64[0, 2] = {}", "%y = Concat(%a, %b) {axis = 1}",
     "const %y: int64[0, 3] = {}"},
    {"concat that does not fit", "const %a: int64[2, 1] = {1, 2}\nconst %b: int64[1, 2] = {3, 4}",
     "%y = Concat(%a, %b) {axis = 1}", nullptr},
    {"slice by attributes", "const %a: int64[4] = {1, 2, 3, 4}", "%y = Slice(%a) {starts = [-3], ends = [100]}",
     "const %y: int64[3] = {2, 3, 4}", 9},
    {"slice backwards",
     "const %a: int64[4] = {1, 2, 3, 4}\nconst %b: int64[1] = {-1}\nconst %c: int64[1] = "
     "{-9223372036854775808}\nconst %d: int64[1] = {0}\nconst %e: int64[1] = {-2}",
     "%y = Slice(%a, %b, %c, %d, %e)", "const %y: int64[2] = {4, 2}"},
    {"slice with a huge step",
     "const %a: int64[4] = {1, 2, 3, 4}\nconst %b: int64[1] = {1}\nconst %c: int64[1] = {4}\n"
     "const %d: int64[1] = {0}\nconst %e: int64[1] = {9223372036854775807}",
     "%y = Slice(%a, %b, %c, %d, %e)", "const %y: int64[1] = {2}"},
    {"slice of nothing", "const %a: int64[4] = {1, 2, 3, 4}\nconst %b: int64[1] = {3}\nconst %c: int64[1] = {1}",
     "%y = Slice(%a, %b, %c)", "const %y: int64[0] = {}"},
    {"gather a scalar", "const %a: int64[3] = {5, 6, 7}\nconst %b: int64[] = {-1}", "%y = Gather(%a, %b)",
     "const %y: int64[] = {7}"},
    {"gather columns", "const %a: int64[2, 3] = {1, 2, 3, 4, 5, 6}\nconst %b: int64[2] = {2, 0}",
     "%y = Gather(%a, %b) {axis = 1}", "const %y: int64[2, 2] = {3, 1, 6, 4}"},
    {"gather out of range", "const %a: int64[3] = {5, 6, 7}\nconst %b: int64[] = {3}", "%y = Gather(%a, %b)", nullptr},
    {"tile", "const %a: int64[2, 2] = {1, 2, 3, 4}\nconst %b: int64[2] = {1, 2}", "%y = Tile(%a, %b)",
     "const %y: int64[2, 4] = {1, 2, 1, 2, 3, 4, 3, 4}"},
    {"pad", "const %a: int64[2] = {1, 2}\nconst %b: int64[2] = {1, 2}\nconst %c: int64[] = {9}", "%y = Pad(%a, %b, %c)",
     "const %y: int64[5] = {9, 1, 2, 9, 9}"},
    {"pad reflected", "const %a: int64[2] = {1, 2}\nconst %b: int64[2] = {1, 0}",
     "%y = Pad(%a, %b) {mode = \"reflect\"}", nullptr},
    {"split unevenly", "const %a: int64[3] = {1, 2, 3}", "%y, %z = Split(%a) {num_outputs = 2}",
     "const %y: int64[2] = {1, 2}\nconst %z: int64[1] = {3}"},
    {"split by sizes", "const %a: int64[3] = {1, 2, 3}\nconst %b: int64[2] = {1, 2}", "%y, %z = Split(%a, %b)",
     "const %y: int64[1] = {1}\nconst %z: int64[2] = {2, 3}"},
    {"split too far", "const %a: int64[3] = {1, 2, 3}\nconst %b: int64[2] = {1, 1}", "%y, %z = Split(%a, %b)", nullptr},
    {"range down", "const %a: int64[] = {5}\nconst %b: int64[] = {0}\nconst %c: int64[] = {-2}",
     "%y = Range(%a, %b, %c)", "const %y: int64[3] = {5, 3, 1}"},
    {"range without step", "const %a: int64[] = {5}\nconst %b: int64[] = {0}\nconst %c: int64[] = {0}",
     "%y = Range(%a, %b, %c)", nullptr},
    {"constant of shape", "const %a: int64[2] = {1, 2}", "%y = ConstantOfShape(%a) {value = int64[1] {7}}",
     "const %y: int64[1, 2] = {7, 7}"},
    {"constant of shape, default", "const %a: int64[0] = {}", "%y = ConstantOfShape(%a)",
     "const %y: float32[] = {0.0}"},
    {"non-zero", "const %a: int64[2, 2] = {0, 1, 1, 0}", "%y = NonZero(%a)", "const %y: int64[2, 2] = {0, 1, 1, 0}"},
    {"reduce sum by input", "const %a: float32[2, 2] = {1.0, 2.0, 3.0, 4.0}\nconst %b: int64[1] = {-1}",
     "%y = ReduceSum(%a, %b) {keepdims = 0}", "const %y: float32[2] = {3.0, 7.0}"},
    {"reduce mean by attribute", "const %a: float32[2, 2] = {1.0, 2.0, 3.0, 4.0}", "%y = ReduceMean(%a) {axes = [0]}",
     "const %y: float32[1, 2] = {2.0, 3.0}", 13},
    {"reduce all", "const %a: int64[2, 2] = {1, 2, 3, 4}", "%y = ReduceProd(%a) {keepdims = 0}",
     "const %y: int64[] = {24}"},
    {"reduce none", "const %a: int64[2] = {1, 2}", "%y = ReduceMax(%a) {noop_with_empty_axes = 1}",
     "const %y: int64[2] = {1, 2}"},
    {"reduce max with NaN", "const %a: float32[3] = {1.0, nan, 2.0}", "%y = ReduceMax(%a) {keepdims = 0}",
     "const %y: float32[] = {nan}"},
    {"reduce min", "const %a: float32[3] = {3.0, -1.0, 2.0}", "%y = ReduceMin(%a) {keepdims = 0}",
     "const %y: float32[] = {-1.0}"},
    {"reduce l2", "const %a: float32[2] = {3.0, 4.0}", "%y = ReduceL2(%a) {keepdims = 0}",
     "const %y: float32[] = {5.0}"},
    {"a Hann window", "const %a: int64[] = {4}", "%y = HannWindow(%a)", "const %y: float32[4] = {0.0, 0.5, 1.0, 0.5}"},
    {"a symmetric Hann window", "const %a: int64[] = {3}", "%y = HannWindow(%a) {periodic = 0}",
     "const %y: float32[3] = {0.0, 1.0, 0.0}"},
    {"a window of nothing", "const %a: int64[] = {-1}", "%y = HannWindow(%a)", nullptr},
    {"a window in double", "const %a: int32[] = {2}", "%y = HannWindow(%a) {output_datatype = 11}",
     "const %y: float64[2] = {0.0, 1.0}"},
    {"mel weights",
     "const %a: int64[] = {3}\nconst %b: int64[] = {16}\nconst %c: int64[] = {8192}\nconst %d: float32[] = {0.0}\n"
     "const %e: float32[] = {3000.0}",
     "%y = MelWeightMatrix(%a, %b, %c, %d, %e)",
     "const %y: float32[9, 3] = {1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0, "
     "0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}"},
    {"dequantize is never evaluated", "const %a: int8[1] = {1}\nconst %b: float32[] = {0.5}",
     "%y = DequantizeLinear(%a, %b)", nullptr},
    {"another domain", "const %a: float32[1] = {1.0}", "%y = com.example::Relu(%a)", nullptr},
    {"strings do not move", "const %a: string[1] = {\"x\"}\nconst %b: int64[] = {0}", "%y = Gather(%a, %b)", nullptr},
    {"a missing input", "const %a: float32[1] = {1.0}", "%y = Add(%a)", nullptr},
};

TEST(Evaluate, Table) {
    for (const Case& each : cases) {
        SCOPED_TRACE(each.title);
        const auto values = run(each);
        if (each.expected == nullptr) {
            EXPECT_FALSE(values);
            continue;
        }
        ASSERT_TRUE(values) << values.error().describe();
        const auto node = parse_graph_text(each.node);
        std::vector<std::pair<std::string, Tensor>> named;
        for (std::size_t i = 0; i < values->size(); ++i) {
            named.emplace_back(node->graph.nodes.front()->outputs[i], (*values)[i]);
        }
        const auto expected = parse_graph_text(each.expected);
        ASSERT_TRUE(expected) << expected.error().describe();
        EXPECT_EQ(text_of(named), print(*expected, {.full_constants = true}));
    }
}

TEST(Evaluate, FunctionsOfOneNumber) {
    const struct {
        const char* op;
        float x;
        float y;
    } table[] = {
        {"Abs", -2, 2},
        {"Neg", 2, -2},
        {"Sign", -3, -1},
        {"Relu", -1, 0},
        {"Sqrt", 9, 3},
        {"Exp", 0, 1},
        {"Log", 1, 0},
        {"Floor", -1.5F, -2},
        {"Ceil", -1.5F, -1},
        {"Reciprocal", 4, .25F},
        {"Tanh", 0.5F, 0.46211716F},
        {"Sigmoid", 1, 0.7310586F},
        {"Erf", 0.5F, 0.5204999F},
        {"Sin", 1, 0.84147098F},
        {"Cos", 1, 0.54030231F},
        {"Identity", 7, 7},
    };
    for (const auto& row : table) {
        const Node node{"", row.op, "", "", {"x"}, {"y"}, {}, "", {}, ""};
        const Tensor input = Tensor::of_floats("x", {1}, std::span(&row.x, 1));
        const Tensor* inputs[] = {&input};
        const auto values = evaluate(node, inputs, {18, 1024});
        ASSERT_TRUE(values) << row.op;
        EXPECT_FLOAT_EQ((*values)[0].to_floats()[0], row.y) << row.op;
    }
}

} // namespace
} // namespace lathe
