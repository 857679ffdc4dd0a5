#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/tokenizer.hpp"
#include "runtime/generator.hpp"
#include "triton/generation.hpp"
#include "triton/model.hpp"
#include "triton/server.hpp"

namespace lathe::triton {

/// Continues the texts of requests, one after the other: each gets its tokens as they come, and its end with the last.
class Generating {
public:
    /// Errors: those of making sessions and a tokenizer.
    static Result<std::unique_ptr<Generating>> make(TRITONBACKEND_ModelInstance* instance, ServedModel& model,
                                                    int device);

    /// Answers and releases every request. One that its client cancelled, or that fails, ends with that cause.
    void execute(std::span<TRITONBACKEND_Request* const> requests);

private:
    Generating(TRITONBACKEND_ModelInstance* instance, const ServedModel& model, Generator generator)
        : instance_(instance), model_(model), generator_(std::move(generator)) {}

    Result<void> serve(TRITONBACKEND_Request* request);
    Result<std::vector<std::int64_t>> tokens_of(const std::string& text);

    TRITONBACKEND_ModelInstance* instance_;
    const ServedModel& model_;
    Generator generator_;
    std::shared_ptr<Tokenizer> tokenizer_; ///< null for models that take no texts
};

} // namespace lathe::triton
