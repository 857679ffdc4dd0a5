// What a Lathe session costs over a raw OpenVINO request on the same graph: both run call by call in turns, with the
// inputs rotating over four sets, so that both bind a tensor a call and both read the output. Prints one JSON line a
// batch size: median ms of each side and the median of the paired ratios with its 95 % interval.
//   session_cost ENGINE GRAPH.onnx INPUT_NAME BATCH... (the engine must have been built from that graph, fp32 or int8)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <lathe/engine.hpp>
#include <openvino/openvino.hpp>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t input_sets = 4;
constexpr std::size_t placements = 10;
constexpr std::size_t warm_up = 20;
constexpr std::size_t most_pairs = 500;
constexpr std::chrono::seconds time_limit{3}; // a placement

double milliseconds(const std::function<void()>& body) {
    const auto start = Clock::now();
    body();
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

struct Times {
    std::vector<double> raw_ms, session_ms, ratios;
};

/// One placement: `engine` and the graph are loaded anew, the engine first if `ours_first`.
lathe::Result<Times> compare(const char* engine_file, const std::string& graph, const std::string& input,
                             std::int64_t batch, bool ours_first) {
    static ov::Core core;
    std::optional<lathe::Engine> engine;
    std::optional<lathe::Session> session;
    const auto load = [&]() -> lathe::Result<void> {
        LATHE_TRY(engine, lathe::Engine::load(engine_file));
        LATHE_TRY(session, engine->make_session());
        return {};
    };
    if (ours_first) LATHE_CHECK(load());
    const auto model = core.read_model(graph);
    const ov::PartialShape declared = model->input(input).get_partial_shape();
    ov::Shape shape{static_cast<std::size_t>(batch)};
    for (std::size_t axis = 1; axis < declared.size(); ++axis)
        shape.push_back(static_cast<std::size_t>(declared[static_cast<std::ptrdiff_t>(axis)].get_length()));
    model->reshape({{input, ov::PartialShape(shape)}});
    const auto threads = static_cast<int32_t>(std::max(1U, std::thread::hardware_concurrency()));
    ov::CompiledModel compiled = core.compile_model(
        model, "CPU", ov::hint::performance_mode(ov::hint::PerformanceMode::LATENCY),
        ov::hint::inference_precision(ov::element::f32), ov::num_streams(1), ov::inference_num_threads(threads));
    ov::InferRequest request = compiled.create_infer_request();
    if (!ours_first) LATHE_CHECK(load());

    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<lathe::HostTensor> sets;
    for (std::size_t i = 0; i < input_sets; ++i) {
        sets.emplace_back(input, lathe::DataType::float32, lathe::Shape(shape.begin(), shape.end()));
        for (float& value : sets.back().as<float>())
            value = normal(random);
    }
    volatile float touched = 0;
    bool failed = false;
    std::size_t turn = 0;
    const auto raw = [&] {
        request.set_input_tensor(ov::Tensor(ov::element::f32, shape, sets[turn % input_sets].bytes.data()));
        request.infer();
        touched = *static_cast<const float*>(request.get_output_tensor().data());
    };
    const auto ours = [&] {
        const lathe::TensorView view = sets[turn % input_sets].view();
        const auto outputs = session->run({&view, 1});
        failed = failed || !outputs;
        if (outputs) touched = outputs->front().as<float>()[0];
    };
    Times times;
    const auto begin = Clock::now();
    for (; turn < most_pairs + warm_up && (turn < 2 * warm_up || Clock::now() - begin < time_limit); ++turn) {
        // Who goes first changes: the second finds the input set in the cache.
        double first = 0;
        double second = 0;
        if (turn % 2 == 0) {
            first = milliseconds(raw);
            second = milliseconds(ours);
        } else {
            second = milliseconds(ours);
            first = milliseconds(raw);
        }
        if (turn < warm_up) continue;
        times.raw_ms.push_back(first);
        times.session_ms.push_back(second);
        times.ratios.push_back(second / first);
    }
    if (failed) return lathe::Error{lathe::ErrorCode::internal, "a run failed", engine_file, ""};
    return times;
}

double median(std::vector<double> values) {
    std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
    return values[values.size() / 2];
}

lathe::Result<void> measure(const char* engine, const std::string& graph, const std::string& input,
                            std::int64_t batch) {
    Times all;
    std::string each;
    for (std::size_t i = 0; i < placements; ++i) {
        LATHE_TRY(const Times times, compare(engine, graph, input, batch, i % 2 == 0));
        all.raw_ms.insert(all.raw_ms.end(), times.raw_ms.begin(), times.raw_ms.end());
        all.session_ms.insert(all.session_ms.end(), times.session_ms.begin(), times.session_ms.end());
        all.ratios.insert(all.ratios.end(), times.ratios.begin(), times.ratios.end());
        char text[32];
        std::snprintf(text, sizeof text, "%s%.4f", i == 0 ? "" : ", ", median(times.ratios));
        each += text;
    }
    std::printf("{\"batch\": %lld, \"pairs\": %zu, \"raw_ms\": %.4f, \"session_ms\": %.4f, \"ratio\": %.4f, "
                "\"placements\": [%s]}\n",
                static_cast<long long>(batch), all.ratios.size(), median(all.raw_ms), median(all.session_ms),
                median(all.ratios), each.c_str());
    std::fflush(stdout);
    return {};
}

} // namespace

int main(int argc, char** argv) {
    if (argc < 5) {
        std::fprintf(stderr, "usage: %s ENGINE GRAPH.onnx INPUT_NAME BATCH...\n", argv[0]);
        return 2;
    }
    for (int i = 4; i < argc; ++i) {
        const auto result = measure(argv[1], argv[2], argv[3], std::atoll(argv[i]));
        if (!result) {
            std::fprintf(stderr, "%s\n", result.error().describe().c_str());
            return 1;
        }
    }
    return 0;
}
