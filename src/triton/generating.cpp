#include "triton/generating.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <utility>

#include "triton/requests.hpp"

namespace lathe::triton {

namespace {

TRITONSERVER_DataType type_of(const GenerationStage::Field& field) {
    if (field.type == "TYPE_STRING") return TRITONSERVER_TYPE_BYTES;
    if (field.type == "TYPE_FP32") return TRITONSERVER_TYPE_FP32;
    return field.type == "TYPE_INT32" ? TRITONSERVER_TYPE_INT32 : TRITONSERVER_TYPE_INT64;
}

/// Those that the request has: most may be left out.
Result<std::map<std::string, InputPieces>> inputs_of(TRITONBACKEND_Request* request) {
    std::map<std::string, InputPieces> given;
    std::uint32_t count = 0;
    LATHE_CHECK(taken(TRITONBACKEND_RequestInputCount(request, &count)));
    for (std::uint32_t i = 0; i < count; ++i) {
        const char* name = nullptr;
        LATHE_CHECK(taken(TRITONBACKEND_RequestInputName(request, i, &name)));
        const auto* const field =
            std::ranges::find(GenerationStage::fields, std::string_view(name), &GenerationStage::Field::name);
        if (field == GenerationStage::fields.end()) continue; // the server refuses what the config lacks
        LATHE_TRY(given[name], read_input(request, name, type_of(*field)));
    }
    return given;
}

Result<void> send_token(TRITONBACKEND_Request* request, std::int64_t token, bool last) {
    LATHE_TRY(Response response, Response::to(request));
    LATHE_TRY(std::byte* const memory,
              response.memory_for(GenerationStage::output_name, TRITONSERVER_TYPE_INT64, {1}, sizeof token));
    std::memcpy(memory, &token, sizeof token);
    return response.send(nullptr, last);
}

} // namespace

Result<std::unique_ptr<Generating>> Generating::make(TRITONBACKEND_ModelInstance* instance, ServedModel& model,
                                                     int device) {
    LATHE_TRY(Generator generator, model.make_generator(device));
    std::unique_ptr<Generating> made(new Generating(instance, model, std::move(generator)));
    if (model.serving().generation->takes_texts()) {
        LATHE_TRY(made->tokenizer_, model.make_tokenizer());
    }
    return made;
}

void Generating::execute(std::span<TRITONBACKEND_Request* const> requests) {
    for (TRITONBACKEND_Request* const request : requests) {
        const std::uint64_t begin = now();
        Result<void> served;
        try {
            served = serve(request);
        } catch (const std::exception& failure) {
            served =
                Error{ErrorCode::out_of_memory, std::string("the text cannot be continued: ") + failure.what(), "", ""};
        }
        if (!served) refuse_request(request, model_.name(), served.error());
        const std::uint64_t end = now();
        // These fail only for handles that are not the server's.
        (void)taken(
            TRITONBACKEND_ModelInstanceReportStatistics(instance_, request, bool(served), begin, begin, end, end));
        if (served) (void)taken(TRITONBACKEND_ModelInstanceReportBatchStatistics(instance_, 1, begin, begin, end, end));
        (void)taken(TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL));
    }
}

Result<void> Generating::serve(TRITONBACKEND_Request* request) {
    LATHE_TRY(const auto given, inputs_of(request));
    LATHE_TRY(GenerationRequest asked, model_.serving().generation->request(given));
    if (asked.text) {
        LATHE_TRY(asked.prompt, tokens_of(*asked.text));
    }
    return generate(
        generator_, asked.prompt, asked.limits, asked.sampling, [&] { return check_not_cancelled(request); },
        [&](std::int64_t token, bool last) { return send_token(request, token, last); });
}

Result<std::vector<std::int64_t>> Generating::tokens_of(const std::string& text) {
    const std::vector<std::string> texts{text};
    LATHE_TRY(const Tokens tokens, tokenizer_->encode(texts, {}));
    LATHE_TRY(const std::size_t cut, tokenizer_->count_cut(texts, {}, tokens));
    if (cut > 0) {
        return Error{ErrorCode::out_of_range,
                     "the text has more than the " + std::to_string(tokenizer_->max_length()) +
                         " tokens that the model takes",
                     "text", "shorten it"};
    }
    std::vector<std::int64_t> ids;
    for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
        if (tokens.mask[i] == 1) ids.push_back(tokens.ids[i]);
    }
    return ids;
}

} // namespace lathe::triton
