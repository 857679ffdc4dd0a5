// Writes the tests' small network as ONNX: make_small_model FILE
#include <cstdio>

#include "backends/models.hpp"
#include "onnx/onnx.hpp"

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    const auto saved = lathe::save_onnx(lathe::test::small_network(), argv[1]);
    if (!saved) std::fprintf(stderr, "%s\n", saved.error().describe().c_str());
    return saved ? 0 : 1;
}
