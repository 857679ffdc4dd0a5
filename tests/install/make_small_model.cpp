// Writes a small classifier as ONNX, and samples for it: make_small_model FOLDER
//   small.onnx   [N,3,8,8] to [N,5], with BatchNormalization and Identity to simplify, and preprocessing in its
//   metadata data.npy     64 samples
#include <cstdio>
#include <filesystem>

#include "backends/models.hpp"
#include "data/npy.hpp"
#include "onnx/onnx.hpp"

namespace {

using lathe::Model;
using lathe::Tensor;

void add_constants(Model& model, const std::string& name, lathe::Shape shape, float value) {
    const std::vector<float> values(static_cast<std::size_t>(lathe::element_count(shape)), value);
    model.graph.initializers.insert_or_assign(name, Tensor::of_floats(name, std::move(shape), values));
}

Model classifier() {
    Model model = lathe::test::model_from_text("opset 18\n"
                                               "input %input: float32[N, 3, 8, 8]\n"
                                               "input %w: float32[8, 3, 3, 3]\n"
                                               "input %s: float32[8]\n"
                                               "input %o: float32[8]\n"
                                               "input %m: float32[8]\n"
                                               "input %v: float32[8]\n"
                                               "input %f: float32[8, 5]\n"
                                               "input %b: float32[5]\n"
                                               "%conv = Conv(%input, %w) {pads = [1, 1, 1, 1]}\n"
                                               "%norm = BatchNormalization(%conv, %s, %o, %m, %v)\n"
                                               "%relu = Relu(%norm)\n"
                                               "%same = Identity(%relu)\n"
                                               "%pool = GlobalAveragePool(%same)\n"
                                               "%flat = Flatten(%pool)\n"
                                               "%scores = Gemm(%flat, %f, %b)\n"
                                               "output %scores: float32[N, 5]\n");
    model.graph.inputs.resize(1); // the others become constants
    lathe::test::add_weights(model, "w", {8, 3, 3, 3}, 1);
    lathe::test::add_weights(model, "f", {8, 5}, 2);
    lathe::test::add_weights(model, "b", {5}, 3);
    lathe::test::add_weights(model, "o", {8}, 4);
    lathe::test::add_weights(model, "m", {8}, 5);
    add_constants(model, "s", {8}, 1.5F);
    add_constants(model, "v", {8}, 0.75F);
    model.set_metadata("lathe.preprocess",
                       R"({"resize":[8,8],"scale":0.00784313725490196,"mean":[1,1,1],"std":[1,1,1]})");
    return model;
}

lathe::Result<void> write(const std::filesystem::path& folder) {
    std::filesystem::create_directories(folder);
    LATHE_CHECK(lathe::save_onnx(classifier(), folder / "small.onnx"));
    lathe::HostTensor samples = lathe::test::small_input(64, 11);
    // Samples of differing strength, so that not all are of one class.
    const auto values = samples.as<float>();
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] *= static_cast<float>(1 + i / 192 % 8) * 0.25F;
    return lathe::write_npy(folder / "data.npy", samples.view());
}

} // namespace

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    const auto written = write(argv[1]);
    if (!written) std::fprintf(stderr, "%s\n", written.error().describe().c_str());
    return written ? 0 : 1;
}
