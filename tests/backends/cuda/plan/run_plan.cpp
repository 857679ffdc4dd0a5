// run_plan FOLDER...: for each folder with model.onnx and input_0.pb, input_1.pb, ... the CUDA engine's plan in BF16
// for the inputs' shapes is printed between lines "plan FOLDER" and "end". Outputs are written beside as float32
// without a header: half_0.f32, ... of that plan in the CPU interpreter (weights in BF16, values not rounded),
// plan_0.f32, ... of the plan in FP32, cpu_0.f32, ... of the CPU engine, whose layers' types are the lines of
// cpu_layers.txt, each with the ONNX nodes that it stands for. With the option --simplified first also
// simplified_0.f32, ... of the CPU engine on the model simplified for those sizes. No GPU is needed.

#include <fstream>
#include <iostream>

#include "backends/cuda/plan/networks.hpp"
#include "conformance/recorded.hpp"
#include "onnx/onnx.hpp"
#include "passes/simplify.hpp"

namespace lathe::test {
namespace {

void write(const std::filesystem::path& path, const HostTensor& tensor) {
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(tensor.bytes.data()), static_cast<std::streamsize>(tensor.bytes.size()));
    if (!file) throw std::runtime_error("cannot write " + path.string());
}

void run(const std::filesystem::path& folder, bool simplified) {
    const Model model = must(load_onnx((folder / "model.onnx").string()));
    std::vector<HostTensor> inputs;
    std::vector<Shape> shapes;
    for (std::size_t i = 0; i < model.graph.inputs.size(); ++i) {
        const ValueInfo& info = model.graph.inputs[i];
        const auto tensor = must(read_tensor(folder / ("input_" + std::to_string(i) + ".pb"), info));
        if (!tensor) throw std::runtime_error("no input " + info.name + " in " + folder.string());
        HostTensor input(info.name, tensor->type(), tensor->shape());
        std::copy(tensor->bytes().begin(), tensor->bytes().end(), input.bytes.begin());
        shapes.push_back(tensor->shape());
        inputs.push_back(std::move(input));
    }
    const cuda::Plan half = plan_of(model, Precision::bfloat16, shapes);
    std::cout << "plan " << folder.string() << '\n' << cuda::print(half) << "end\n";
    const auto half_outputs = interpreted(half, inputs, false);
    const auto plan_outputs = interpreted(plan_of(model, Precision::float32, shapes), inputs, true);
    // First, since the CPU engine may have no form of the model.
    for (std::size_t i = 0; i < plan_outputs.size(); ++i) {
        write(folder / ("half_" + std::to_string(i) + ".f32"), half_outputs[i]);
        write(folder / ("plan_" + std::to_string(i) + ".f32"), plan_outputs[i]);
    }
    const auto cpu_outputs = run_on_cpu(model, inputs);
    std::ofstream layers(folder / "cpu_layers.txt");
    for (const LayerInfo& layer : must(compile_for_cpu(model, inputs)->layers())) {
        layers << layer.type;
        for (const std::string& node : layer.nodes)
            layers << '\t' << node;
        layers << '\n';
    }
    for (std::size_t i = 0; i < cpu_outputs.size(); ++i) {
        write(folder / ("cpu_" + std::to_string(i) + ".f32"), cpu_outputs[i]);
    }
    if (!simplified) return;
    Model simple = model; // of the sizes that it is run with: others may be none of the network's
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        simple.graph.inputs[i].dims.emplace();
        for (const std::int64_t size : shapes[i])
            simple.graph.inputs[i].dims->push_back(Dimension::of(size));
    }
    const Runner on_cpu = [](const Model& of, std::span<const TensorSet> sets) -> Result<std::vector<TensorSet>> {
        std::vector<TensorSet> outputs;
        for (TensorSet set : sets)
            outputs.push_back(run_on_cpu(of, set));
        return outputs;
    };
    SimplifyOptions options;
    options.samples = 1;
    const ShapeInference infer = [](Model& of) { return infer_shapes(of, {.discard_existing = true}); };
    if (const auto report = simplify(simple, options, on_cpu, infer); !report)
        throw std::runtime_error(report.error().describe());
    const auto outputs = run_on_cpu(simple, inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i)
        write(folder / ("simplified_" + std::to_string(i) + ".f32"), outputs[i]);
}

} // namespace
} // namespace lathe::test

int main(int argc, char** argv) {
    int failures = 0;
    const bool simplified = argc > 1 && std::string_view(argv[1]) == "--simplified";
    for (int i = simplified ? 2 : 1; i < argc; ++i) {
        try {
            lathe::test::run(argv[i], simplified);
        } catch (const std::exception& error) {
            std::cout << "failed " << argv[i] << '\n' << error.what() << "\nend\n";
            ++failures;
        }
    }
    return failures == 0 ? 0 : 1;
}
