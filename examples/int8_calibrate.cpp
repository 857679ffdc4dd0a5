// Calibrates a float ONNX model on data and builds an INT8 engine from it.
//   int8_calibrate model.onnx data model.engine [minmax|percentile|entropy|mse]
#include <cstdio>

#include <lathe/calibrate.hpp>
#include <lathe/engine.hpp>
#include <lathe/model.hpp>
#include <lathe/quantize.hpp>
#include <lathe/simplify.hpp>

namespace {

lathe::Result<void> calibrate(int argc, char** argv) {
    LATHE_TRY(const lathe::ModelPtr model, lathe::load_model(argv[1]));
    LATHE_TRY(const auto simplified, lathe::simplify(*model));
    std::printf("nodes: %zu, simplified to %zu\n", simplified.before_nodes, simplified.after_nodes);

    lathe::CalibrationOptions options;
    if (argc > 4) {
        LATHE_TRY(options.method, lathe::method_from_name(argv[4]));
    }
    LATHE_TRY(const auto calibration, lathe::Calibration::run(*model, argv[2], options));
    std::printf("ranges of %zu tensors by %s from %zu samples\n", calibration.tensors().size(),
                to_string(calibration.method()), calibration.samples());
    for (const auto& finding : calibration.findings())
        std::printf("  %s: %s %s\n", finding.name.c_str(), finding.tensor.c_str(), finding.detail.c_str());

    LATHE_TRY(const auto quantized, lathe::quantize(*model, calibration));
    std::printf("%zu of %zu nodes in int8\n", quantized.plan.quantized_nodes, quantized.plan.heavy_nodes);
    for (const auto& decision : quantized.plan.decisions) {
        if (!decision.quantized) std::printf("  float: %s, %s\n", decision.node.c_str(), decision.explanation.c_str());
    }

    lathe::BuildOptions build;
    build.name = "int8";
    build.precision = lathe::Precision::int8;
    build.source = argv[1];
    LATHE_TRY(lathe::Engine engine, lathe::Engine::build(*quantized.model, build));
    LATHE_CHECK(engine.save(argv[3]));
    std::printf("%s: %zu bytes\n", argv[3], engine.info().file_bytes);
    return {};
}

} // namespace

int main(int argc, char** argv) {
    if (argc < 4) {
        std::fprintf(stderr, "usage: %s model.onnx data model.engine [method]\n", argv[0]);
        return 2;
    }
    const auto result = calibrate(argc, argv);
    if (!result) std::fprintf(stderr, "%s\n", result.error().describe().c_str());
    return result ? 0 : 1;
}
