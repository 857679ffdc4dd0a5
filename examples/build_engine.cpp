// Compiles an ONNX model to an engine file.
//   build_engine model.onnx model.engine [input:1x3x224x224..8x3x224x224..32x3x224x224]
#include <cstdio>

#include <lathe/engine.hpp>
#include <lathe/model.hpp>

namespace {

lathe::Result<void> build(int argc, char** argv) {
    LATHE_TRY(const lathe::ModelPtr model, lathe::load_model(argv[1]));
    lathe::BuildOptions options;
    options.source = argv[1];
    if (argc > 3) {
        LATHE_TRY(auto range, lathe::parse_shape_range(argv[3]));
        options.shapes.insert(range);
    }
    LATHE_TRY(lathe::Engine engine, lathe::Engine::build(*model, options));
    LATHE_CHECK(engine.save(argv[2]));
    std::printf("%s: %zu bytes, %s\n", argv[2], engine.info().file_bytes,
                engine.info().inputs.front().range.describe().c_str());
    return {};
}

} // namespace

int main(int argc, char** argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: %s model.onnx model.engine [NAME:MIN..OPT..MAX]\n", argv[0]);
        return 2;
    }
    const auto result = build(argc, argv);
    if (!result) std::fprintf(stderr, "%s\n", result.error().describe().c_str());
    return result ? 0 : 1;
}
