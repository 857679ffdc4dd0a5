#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lathe/engine.hpp"
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
    void tokenize(std::span<Pending> all);
    void decode(std::span<Pending> all);
    void run(std::span<Pending*> group, Times& times);
    Result<void> run_group(std::span<Pending*> group, Times& times);
    Result<void> answer(Pending& pending, const std::vector<TensorView>& outputs, std::int64_t first);
    void refuse(Pending& pending, const Error& error);

    TRITONBACKEND_ModelInstance* instance_;
    const ServedModel& model_;
    std::unique_ptr<Generating> generating_; ///< does all, of a model that continues texts
    std::optional<Session> session_;         ///< of others
    BatchInputs joined_;
    std::unique_ptr<ThreadPool> pool_;     ///< decodes pictures; null for models that take none
    std::shared_ptr<Tokenizer> tokenizer_; ///< null for models that take no texts
};

} // namespace lathe::triton
