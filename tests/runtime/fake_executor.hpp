#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/batching.hpp"

namespace lathe::test {

/// Runs nothing but its own arithmetic: of inputs x [N, k] and id [N], the output y [N, k] is 3 x + id, and the output
/// rank [N] is the row's place in the batch.
class FakeExecutor final : public BatchExecutor {
public:
    struct Behaviour {
        std::int64_t least = 1;
        std::int64_t most = 8;
        std::chrono::microseconds run_time{0};
        /// Called with the ids of each batch before it runs; an error is the batch's.
        std::function<Result<void>(std::span<const std::int64_t>)> before;
        bool flat_output = false; ///< y without the axis of samples
        bool own_memory = false;  ///< inputs are to be joined in the session's memory
    };

    explicit FakeExecutor(Behaviour behaviour) : behaviour_(std::move(behaviour)) {
        const std::int64_t least = behaviour_.least;
        const std::int64_t most = behaviour_.most;
        inputs_ = {{"x", DataType::float32, {{least, 1}, {most, 4}, {most, 16}}},
                   {"id", DataType::int64, {{least}, {most}, {most}}}};
    }

    const std::vector<IoInfo>& inputs() const override { return inputs_; }

    std::span<std::byte> input_memory(std::size_t index) override {
        if (!behaviour_.own_memory) return {};
        const std::size_t rows = static_cast<std::size_t>(behaviour_.most);
        own_[index].resize(index == 0 ? rows * 16 * sizeof(float) : rows * sizeof(std::int64_t));
        return own_[index];
    }

    Result<std::vector<TensorView>> run(std::span<const TensorView> inputs) override {
        const auto ids = inputs[1].as<const std::int64_t>();
        const bool joined = ids.front() != ids.back(); // of several requests
        for (std::size_t i = 0; joined && behaviour_.own_memory && i < own_.size(); ++i) {
            if (inputs[i].bytes.data() != own_[i].data())
                return Error{ErrorCode::internal, "a batch was joined elsewhere than in the session's memory", "", ""};
        }
        const auto x = inputs[0].as<const float>();
        const auto id = inputs[1].as<const std::int64_t>();
        if (behaviour_.before) LATHE_CHECK(behaviour_.before(id));
        if (behaviour_.run_time.count() > 0) std::this_thread::sleep_for(behaviour_.run_time);
        const std::size_t rows = id.size();
        const std::size_t width = x.size() / rows;
        // Views of the same memory in every run, as real sessions give them: an answer that is not copied is
        // overwritten.
        y_.resize(rows * width);
        rank_.resize(rows);
        for (std::size_t i = 0; i < rows; ++i) {
            rank_[i] = static_cast<std::int64_t>(i);
            for (std::size_t j = 0; j < width; ++j)
                y_[i * width + j] = 3 * x[i * width + j] + static_cast<float>(id[i]);
        }
        Shape shape = inputs[0].shape;
        if (behaviour_.flat_output) shape = {static_cast<std::int64_t>(rows * width)};
        return std::vector<TensorView>{
            {"y", DataType::float32, shape, std::as_writable_bytes(std::span(y_))},
            {"rank", DataType::int64, {static_cast<std::int64_t>(rows)}, std::as_writable_bytes(std::span(rank_))}};
    }

private:
    Behaviour behaviour_;
    std::vector<IoInfo> inputs_;
    std::array<std::vector<std::byte>, 2> own_;
    std::vector<float> y_;
    std::vector<std::int64_t> rank_;
};

/// A batching session over `options.instances` of them.
inline Result<BatchingSession> fake_session(const FakeExecutor::Behaviour& behaviour, const BatchingOptions& options) {
    std::vector<std::unique_ptr<BatchExecutor>> executors;
    for (std::size_t i = 0; i < options.instances; ++i)
        executors.push_back(std::make_unique<FakeExecutor>(behaviour));
    return BatchingAccess::start(std::move(executors), options);
}

/// A request of `samples` rows of `width` numbers that tell whose they are.
inline std::vector<HostTensor> request(std::int64_t id, std::int64_t samples = 1, std::int64_t width = 4) {
    std::vector<HostTensor> inputs;
    inputs.emplace_back("x", DataType::float32, Shape{samples, width});
    inputs.emplace_back("id", DataType::int64, Shape{samples});
    float next = static_cast<float>(id % 1000);
    for (float& value : inputs[0].as<float>())
        value = next++;
    for (std::int64_t& value : inputs[1].as<std::int64_t>())
        value = id;
    return inputs;
}

/// Whether the reply is the one of `request(id, samples, width)`, wholly.
inline bool is_reply_of(const BatchReply& reply, std::int64_t id, std::int64_t samples = 1, std::int64_t width = 4) {
    if (reply.outputs.size() != 2 || reply.outputs[0].shape != Shape{samples, width}) return false;
    float x = static_cast<float>(id % 1000);
    for (const float value : reply.outputs[0].as<float>()) {
        if (value != 3 * x++ + static_cast<float>(id)) return false;
    }
    return true;
}

} // namespace lathe::test
