// Serves many small requests in shared batches, as a server's handlers would: four threads ask, one engine answers.
//   batching model.engine [requests]
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include <lathe/batching.hpp>

namespace {

/// One sample of each input, filled with `value` where it holds floats.
std::vector<lathe::HostTensor> sample_of(const lathe::Engine& engine, float value) {
    std::vector<lathe::HostTensor> inputs;
    for (const auto& io : engine.info().inputs) {
        lathe::Shape shape = io.range.opt;
        shape[0] = 1;
        inputs.emplace_back(io.name, io.type, shape);
        if (io.type != lathe::DataType::float32) continue;
        for (float& element : inputs.back().as<float>())
            element = value;
    }
    return inputs;
}

lathe::Result<void> serve(const char* path, int requests) {
    LATHE_TRY(const lathe::Engine engine, lathe::Engine::load(path));
    lathe::BatchingOptions options;
    options.max_wait = std::chrono::milliseconds(2); // the oldest request waits so long for others
    options.queue_capacity = 256;
    options.when_full = lathe::Backpressure::block; // a handler that finds the queue full waits
    LATHE_TRY(lathe::BatchingSession session, lathe::BatchingSession::start(engine, options));

    std::atomic<int> failed{0};
    std::vector<std::thread> handlers;
    for (int handler = 0; handler < 4; ++handler) {
        handlers.emplace_back([&, handler] {
            std::vector<std::future<lathe::Result<lathe::BatchReply>>> pending;
            for (int i = handler; i < requests; i += 4) {
                auto answer = session.submit(sample_of(engine, static_cast<float>(i % 10) / 10));
                if (answer)
                    pending.push_back(std::move(*answer));
                else
                    ++failed; // refused: answer.error() says why
            }
            for (auto& answer : pending)
                failed += answer.get() ? 0 : 1; // its own rows of the outputs, or the error of its batch
        });
    }
    for (auto& handler : handlers)
        handler.join();
    LATHE_CHECK(session.shutdown(lathe::Shutdown::drain));
    const auto counts = session.statistics();
    std::printf("%zu requests answered in %zu batches, %d failed\n", counts.completed, counts.batches, failed.load());
    if (failed == 0) return {};
    return lathe::Error{lathe::ErrorCode::verification_failed, "requests failed", path, ""};
}

} // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: %s model.engine [requests]\n", argv[0]);
        return 2;
    }
    const auto result = serve(argv[1], argc > 2 ? std::atoi(argv[2]) : 1000);
    if (!result) std::fprintf(stderr, "%s\n", result.error().describe().c_str());
    return result ? 0 : 1;
}
