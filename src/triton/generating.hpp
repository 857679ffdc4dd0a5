#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/detokenizer.hpp"
#include "data/tokenizer.hpp"
#include "runtime/device_run.hpp"
#include "runtime/generator.hpp"
#include "runtime/joined_generator.hpp"
#include "triton/generation.hpp"
#include "triton/model.hpp"
#include "triton/server.hpp"

namespace lathe::triton {

/// Continues the texts of requests, one after the other: each gets its tokens as they come, and its end with the last.
/// Those of other instances share its runs where the decoder's engine takes several samples.
class Generating {
public:
    /// Errors: those of making sessions and a tokenizer.
    static Result<std::unique_ptr<Generating>> make(TRITONBACKEND_ModelInstance* instance, ServedModel& model,
                                                    int device);

    /// Answers and releases every request. One that its client cancelled, or that fails, ends with that cause.
    void execute(std::span<TRITONBACKEND_Request* const> requests);

private:
    Generating(TRITONBACKEND_ModelInstance* instance, const ServedModel& model, int device)
        : instance_(instance), model_(model), device_(device) {}

    Result<void> serve(TRITONBACKEND_Request* request);
    Result<std::vector<std::int64_t>> tokens_of(const std::string& text);

    TRITONBACKEND_ModelInstance* instance_;
    const ServedModel& model_;
    std::shared_ptr<JoinedGenerator> joined_; ///< null: the instance has a generator of its own
    std::optional<Generator> own_;
    int device_;
    std::unique_ptr<DeviceCopies> copies_;           ///< null until a request lies in a GPU's memory
    std::shared_ptr<Tokenizer> tokenizer_;           ///< null for models that take no texts
    std::shared_ptr<const Detokenizer> detokenizer_; ///< null for models that give none
};

} // namespace lathe::triton
