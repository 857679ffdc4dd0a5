#include "triton/generating.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <optional>
#include <string_view>
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
Result<std::map<std::string, InputPieces>> inputs_of(TRITONBACKEND_Request* request, int device,
                                                     std::unique_ptr<DeviceCopies>& copies,
                                                     std::map<std::string, std::vector<std::byte>>& kept) {
    std::map<std::string, InputPieces> given;
    std::uint32_t count = 0;
    LATHE_CHECK(taken(TRITONBACKEND_RequestInputCount(request, &count)));
    for (std::uint32_t i = 0; i < count; ++i) {
        const char* name = nullptr;
        LATHE_CHECK(taken(TRITONBACKEND_RequestInputName(request, i, &name)));
        const auto* const field =
            std::ranges::find(GenerationStage::fields, std::string_view(name), &GenerationStage::Field::name);
        if (field == GenerationStage::fields.end()) continue; // the server refuses what the config lacks
        LATHE_TRY(given[name], read_host_input(request, name, type_of(*field), device, copies, kept[name]));
    }
    return given;
}

/// Answers a request token by token, with the outputs that it asks for.
class TokenSender {
public:
    /// `detokenizer` is null for a model that gives no texts. Errors: not_found (an output that the model lacks).
    static Result<TokenSender> to(TRITONBACKEND_Request* request, std::shared_ptr<const Detokenizer> detokenizer,
                                  std::span<const std::int64_t> prompt) {
        TokenSender sender(request);
        std::uint32_t count = 0;
        LATHE_CHECK(taken(TRITONBACKEND_RequestOutputCount(request, &count)));
        for (std::uint32_t i = 0; i < count; ++i) {
            const char* name = nullptr;
            LATHE_CHECK(taken(TRITONBACKEND_RequestOutputName(request, i, &name)));
            sender.ids_ = sender.ids_ || std::string_view(name) == GenerationStage::output_name;
            if (std::string_view(name) != GenerationStage::text_output_name) continue;
            if (detokenizer == nullptr) return Error{ErrorCode::not_found, "the model gives no texts", name, ""};
            sender.text_.emplace(detokenizer, prompt);
        }
        return sender;
    }

    Result<void> send(std::int64_t token, bool last) {
        LATHE_TRY(Response response, Response::to(request_));
        if (ids_) {
            LATHE_TRY(std::byte* const memory,
                      response.memory_for(GenerationStage::output_name, TRITONSERVER_TYPE_INT64, {1}, sizeof token));
            std::memcpy(memory, &token, sizeof token);
        }
        if (text_) {
            const std::string piece = text_->next(token) + (last ? text_->end() : std::string());
            const auto size = static_cast<std::uint32_t>(piece.size());
            LATHE_TRY(std::byte* const memory, response.memory_for(GenerationStage::text_output_name,
                                                                   TRITONSERVER_TYPE_BYTES, {1}, sizeof size + size));
            std::memcpy(memory, &size, sizeof size);
            std::memcpy(memory + sizeof size, piece.data(), size);
        }
        return response.send(nullptr, last);
    }

private:
    explicit TokenSender(TRITONBACKEND_Request* request) : request_(request) {}

    TRITONBACKEND_Request* request_;
    bool ids_ = false;
    std::optional<TextWriter> text_;
};

} // namespace

Result<std::unique_ptr<Generating>> Generating::make(TRITONBACKEND_ModelInstance* instance, ServedModel& model,
                                                     int device) {
    std::unique_ptr<Generating> made(new Generating(instance, model, device));
    LATHE_TRY(made->joined_, model.joined_generator(device));
    if (made->joined_ == nullptr) {
        LATHE_TRY(made->own_, model.make_generator(device));
    }
    if (model.serving().generation->takes_texts()) {
        LATHE_TRY(made->tokenizer_, model.make_tokenizer());
    }
    if (model.serving().generation->gives_texts()) {
        LATHE_TRY(made->detokenizer_, model.detokenizer());
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
    std::map<std::string, std::vector<std::byte>> kept;
    LATHE_TRY(const auto given, inputs_of(request, device_, copies_, kept));
    LATHE_TRY(GenerationRequest asked, model_.serving().generation->request(given));
    if (asked.text) {
        LATHE_TRY(asked.prompt, tokens_of(*asked.text));
    }
    LATHE_TRY(TokenSender sender, TokenSender::to(request, detokenizer_, asked.prompt));
    const RunCheck check = [&] { return check_not_cancelled(request); };
    const TakeToken take = [&](std::int64_t token, bool last) { return sender.send(token, last); };
    if (joined_ != nullptr) return joined_->generate(asked.prompt, asked.limits, asked.sampling, check, take);
    return generate(*own_, asked.prompt, asked.limits, asked.sampling, check, take);
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
