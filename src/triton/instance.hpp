#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lathe/engine.hpp"
#include "runtime/device_run.hpp"
#include "triton/batch.hpp"
#include "triton/generating.hpp"
#include "triton/model.hpp"
#include "triton/server.hpp"

namespace lathe::triton {

/// A session that runs what the server hands it, one call at a time.
class Instance {
public:
    /// Errors: those of making a session.
    static Result<std::unique_ptr<Instance>> make(TRITONBACKEND_ModelInstance* instance, ServedModel& model);

    /// Answers and releases every request, each with its outputs or its own error.
    void execute(std::span<TRITONBACKEND_Request* const> requests);

private:
    struct Pending; ///< a request that waits for its answer
    struct Times;

    Instance(TRITONBACKEND_ModelInstance* instance, const ServedModel& model) : instance_(instance), model_(model) {}

    Result<std::vector<std::span<const std::byte>>> strings_of(Pending& pending) const;
    Result<void> read(Pending& pending);
    Result<DeviceCopies*> copies();
    void tokenize(std::span<Pending> all);
    void decode(std::span<Pending> all);
    void convert(std::span<Pending> all);
    Result<void> warm_up();
    Result<std::vector<TensorView>> run_session(std::span<const RequestInputs* const> inputs, RunSize& size,
                                                Times& times);
    void run(std::span<Pending*> group, Times& times);
    Result<void> run_group(std::span<Pending*> group, Times& times);
    Result<void> answer(Pending& pending, const std::vector<TensorView>& outputs, const RunSize& size,
                        std::int64_t first);
    void refuse(Pending& pending, const Error& error);

    TRITONBACKEND_ModelInstance* instance_;
    const ServedModel& model_;
    std::unique_ptr<Generating> generating_; ///< does all, of a model that continues texts
    std::optional<Session> session_;         ///< of others
    int device_ = 0;
    bool reaches_gpu_ = false; ///< the session reads inputs in the GPU's memory, and leaves its outputs there
    BatchInputs joined_;
    std::unique_ptr<DeviceCopies> copies_; ///< null until a tensor lies in a GPU's memory
    std::optional<DeviceInputs> on_device_;
    std::vector<std::byte> pixels_;        ///< of a run's pictures that came in pieces
    std::unique_ptr<ThreadPool> pool_;     ///< decodes and converts pictures; null for models that take none
    std::shared_ptr<Tokenizer> tokenizer_; ///< null for models that take no texts
};

} // namespace lathe::triton
