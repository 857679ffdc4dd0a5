// Runs an engine once on a ramp of numbers and prints the largest output.
//   infer model.engine
#include <algorithm>
#include <cstdio>

#include <lathe/engine.hpp>

namespace {

lathe::Result<void> infer(const char* path) {
    LATHE_TRY(const lathe::Engine engine, lathe::Engine::load(path));
    LATHE_TRY(lathe::Session session, engine.make_session());
    std::vector<lathe::HostTensor> inputs;
    for (const auto& io : session.inputs()) {
        inputs.emplace_back(io.name, io.type, io.range.min);
        if (io.type != lathe::DataType::float32) continue;
        float value = 0;
        for (float& element : inputs.back().as<float>())
            element = (value += 0.01F) > 1 ? value = 0 : value;
    }
    std::vector<lathe::TensorView> views;
    for (auto& tensor : inputs)
        views.push_back(tensor.view());
    LATHE_TRY(const auto outputs, session.run(views)); // views of the session's memory, valid until the next run
    for (const auto& output : outputs) {
        std::printf("%s: %s\n", output.name.c_str(), lathe::to_string(output.shape).c_str());
        if (output.type != lathe::DataType::float32 || output.bytes.empty()) continue;
        const auto values = output.as<float>();
        const auto best = std::max_element(values.begin(), values.end());
        std::printf("  largest: %f at %td\n", static_cast<double>(*best), best - values.begin());
    }
    return {};
}

} // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: %s model.engine\n", argv[0]);
        return 2;
    }
    const auto result = infer(argv[1]);
    if (!result) std::fprintf(stderr, "%s\n", result.error().describe().c_str());
    return result ? 0 : 1;
}
