#include "backends/openvino/tokenizer.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>

#include <dlfcn.h>
#include <zlib.h>

#include <openvino/op/constant.hpp>

#include "backends/openvino/core.hpp"
#include "data/text_pieces.hpp"
#include "support/json.hpp"

namespace lathe::openvino {

namespace {

constexpr const char* library_name = "libopenvino_tokenizers.so";
constexpr std::size_t largest_graph = std::size_t{1} << 28;
constexpr std::int64_t beyond_any_text = 1'000'000'000; ///< tokens

Error damaged_tokenizer(const std::string& what) {
    return {ErrorCode::parse_error, "the model's tokenizer cannot be read: " + what, "metadata lathe.tokenizer",
            "export the model again"};
}

/// RFC 4648, with padding, no line breaks. Nothing for any other text.
std::optional<std::vector<unsigned char>> from_base64(std::string_view text) {
    if (text.size() % 4 != 0) return std::nullopt;
    const auto value = [](char c) -> int {
        if (c >= 'A' && c <= 'Z') return c - 'A';
        if (c >= 'a' && c <= 'z') return c - 'a' + 26;
        if (c >= '0' && c <= '9') return c - '0' + 52;
        return c == '+' ? 62 : c == '/' ? 63 : -1;
    };
    const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
    std::vector<unsigned char> bytes;
    bytes.reserve(text.size() / 4 * 3);
    for (std::size_t i = 0; i < text.size(); i += 4) {
        const bool last = i + 4 == text.size();
        std::uint32_t group = 0;
        for (std::size_t j = 0; j < 4; ++j) {
            const bool filler = last && j >= 4 - padding;
            const int digit = filler ? 0 : value(text[i + j]);
            if (digit < 0) return std::nullopt;
            group = group << 6 | static_cast<std::uint32_t>(digit);
        }
        for (std::size_t j = 0; j < (last ? 3 - padding : 3); ++j)
            bytes.push_back(static_cast<unsigned char>(group >> (16 - 8 * j) & 0xFF));
    }
    return bytes;
}

Result<std::string> unpack(const Json& field, const char* what) {
    if (!field.is_string()) return damaged_tokenizer(std::string(what) + " is missing");
    const auto packed = from_base64(field.get_ref<const std::string&>());
    if (!packed) return damaged_tokenizer(std::string(what) + " is not base64");
    z_stream stream{};
    if (inflateInit(&stream) != Z_OK) return Error{ErrorCode::out_of_memory, "zlib cannot start", "", ""};
    std::string text;
    std::array<char, 1 << 16> buffer{};
    stream.next_in = const_cast<unsigned char*>(packed->data());
    stream.avail_in = static_cast<uInt>(packed->size());
    int state = Z_OK;
    while (state == Z_OK && text.size() <= largest_graph) {
        stream.next_out = reinterpret_cast<unsigned char*>(buffer.data());
        stream.avail_out = static_cast<uInt>(buffer.size());
        state = inflate(&stream, Z_NO_FLUSH);
        text.append(buffer.data(), buffer.size() - stream.avail_out);
    }
    inflateEnd(&stream);
    if (state != Z_STREAM_END) return damaged_tokenizer(std::string(what) + " does not unpack");
    return text;
}

/// The number of tokens at which the graph cuts, special ones not counted: constants that reach the operator Truncate
/// through the choice of whether to cut (whose other branch is near the largest integer).
std::vector<std::shared_ptr<ov::op::v0::Constant>> truncation_limits(const ov::Model& model) {
    std::vector<std::shared_ptr<ov::op::v0::Constant>> found;
    const auto consider = [&](const std::shared_ptr<ov::Node>& node) {
        const auto constant = std::dynamic_pointer_cast<ov::op::v0::Constant>(node);
        if (!constant || !constant->get_element_type().is_integral_number()) return;
        if (ov::shape_size(constant->get_shape()) != 1) return;
        if (const auto value = constant->cast_vector<std::int64_t>()[0]; value > 0 && value < beyond_any_text) {
            found.push_back(constant);
        }
    };
    for (const auto& node : model.get_ordered_ops()) {
        if (std::string_view(node->get_type_info().name) != "Truncate") continue;
        for (const auto& input : node->input_values()) {
            const auto source = input.get_node_shared_ptr();
            if (std::string_view(source->get_type_info().name) != "Select") continue;
            for (std::size_t i = 1; i < source->get_input_size(); ++i)
                consider(source->input_value(i).get_node_shared_ptr());
        }
    }
    return found;
}

void set_limit(const std::shared_ptr<ov::op::v0::Constant>& limit, std::int64_t kept) {
    ov::replace_node(limit,
                     ov::op::v0::Constant::create(limit->get_element_type(), limit->get_shape(), std::vector{kept}));
}

/// Cuts `fewer` tokens earlier.
Result<void> shorten(ov::Model& model, std::size_t fewer) {
    if (fewer == 0) return {};
    const auto limits = truncation_limits(model);
    if (limits.empty()) {
        return Error{ErrorCode::unsupported, "this tokenizer does not cut long texts", "metadata lathe.tokenizer",
                     "build the engine for longer sequences (--shape)"};
    }
    for (const auto& limit : limits) {
        const std::int64_t kept = limit->cast_vector<std::int64_t>()[0] - static_cast<std::int64_t>(fewer);
        if (kept < 1) {
            return Error{ErrorCode::out_of_range, "the engine's longest sequence has no room for a token of text",
                         "--shape", "build the engine for longer sequences"};
        }
        set_limit(limit, kept);
    }
    return {};
}

/// A tokenizer's graph, ready to run, and in the form that cuts nothing once somebody asks for it.
struct TokenizerForm {
    std::shared_ptr<ov::Model> model;
    ov::InferRequest request;
    std::optional<ov::InferRequest> whole;
};

ov::InferRequest request_of(const std::shared_ptr<ov::Model>& model) {
    return core().compile_model(model, "CPU", ov::num_streams(1)).create_infer_request();
}

Result<TokenizerForm> compile(const Json& graph, std::size_t fewer) {
    if (!graph.is_object()) return damaged_tokenizer("a graph is missing");
    LATHE_TRY(const std::string xml, unpack(graph.value("xml", Json()), "xml"));
    LATHE_TRY(const std::string weights, unpack(graph.value("weights", Json()), "weights"));
    return guarded("OpenVINO cannot run the tokenizer", "metadata lathe.tokenizer", [&]() -> Result<TokenizerForm> {
        ov::Tensor tensor(ov::element::u8, {weights.size()});
        std::memcpy(tensor.data(), weights.data(), weights.size());
        const std::shared_ptr<ov::Model> model = core().read_model(xml, tensor);
        LATHE_CHECK(shorten(*model, fewer));
        return TokenizerForm{model, request_of(model), {}};
    });
}

/// Adds the operators to OpenVINO, once a process.
Result<void> load_operators() {
    static std::mutex mutex;
    static bool loaded = false;
    const std::lock_guard lock(mutex);
    if (loaded) return {};
    LATHE_TRY(const std::filesystem::path library, tokenizers_library());
    return guarded("OpenVINO cannot load its tokenizers", library.string(), [&]() -> Result<void> {
        // Stays loaded until the process ends: what it keeps in its own globals outlives OpenVINO's hold on it.
        ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        core().add_extension(library);
        loaded = true;
        return {};
    });
}

struct Settings {
    std::size_t max_length = 0;
    std::int64_t pad_id = 0;
    bool separate = false;
    PaddingSide side = PaddingSide::behind;
    std::string digest;
};

class GraphTokenizer final : public Tokenizer {
public:
    GraphTokenizer(Settings settings, TokenizerForm single, std::optional<TokenizerForm> pair)
        : settings_(std::move(settings)), single_(std::move(single)), pair_(std::move(pair)) {}

    std::size_t max_length() const override { return settings_.max_length; }
    std::int64_t pad_id() const override { return settings_.pad_id; }
    PaddingSide padding_side() const override { return settings_.side; }
    bool separates_pairs() const override { return settings_.separate; }
    std::string digest() const override { return settings_.digest + " " + std::to_string(settings_.max_length); }

    Result<Tokens> encode(std::span<const std::string> first, std::span<const std::string> second) override {
        if (!second.empty() && !pair_) {
            return Error{ErrorCode::unsupported, "this model's tokenizer joins no pairs of texts",
                         "metadata lathe.tokenizer", "give one text column"};
        }
        // The library reads beyond texts that are not UTF-8.
        LATHE_CHECK(all_utf8(first, "text "));
        LATHE_CHECK(all_utf8(second, "second text "));
        return run(second.empty() ? single_.request : pair_->request, first, second);
    }

    Result<std::size_t> count_cut(std::span<const std::string> first, std::span<const std::string> second,
                                  const Tokens& tokens) override {
        // Only what fills the model may have been longer.
        std::vector<std::string> full_first;
        std::vector<std::string> full_second;
        for (std::size_t row = 0; row < tokens.count; ++row) {
            if (length_of(tokens, row) < settings_.max_length) continue;
            full_first.push_back(first[row]);
            if (!second.empty()) full_second.push_back(second[row]);
        }
        if (full_first.empty()) return std::size_t{0};
        TokenizerForm& form = second.empty() ? single_ : *pair_;
        if (!form.whole) {
            LATHE_TRY(form.whole, without_limit(*form.model));
        }
        LATHE_TRY(const Tokens whole, run(*form.whole, full_first, full_second));
        std::size_t cut = 0;
        for (std::size_t row = 0; row < whole.count; ++row)
            cut += length_of(whole, row) > settings_.max_length ? 1 : 0;
        return cut;
    }

private:
    static std::size_t length_of(const Tokens& tokens, std::size_t row) {
        const auto begin = tokens.mask.begin() + static_cast<std::ptrdiff_t>(row * tokens.length);
        return static_cast<std::size_t>(std::count(begin, begin + static_cast<std::ptrdiff_t>(tokens.length), 1));
    }

    static Result<ov::InferRequest> without_limit(const ov::Model& model) {
        return guarded("OpenVINO cannot run the tokenizer", "metadata lathe.tokenizer",
                       [&]() -> Result<ov::InferRequest> {
                           const std::shared_ptr<ov::Model> whole = model.clone();
                           for (const auto& limit : truncation_limits(*whole))
                               set_limit(limit, beyond_any_text);
                           return request_of(whole);
                       });
    }

    static Result<Tokens> run(ov::InferRequest& request, std::span<const std::string> first,
                              std::span<const std::string> second) {
        return guarded("the tokenizer failed", "", [&]() -> Result<Tokens> {
            request.set_input_tensor(0, strings(first));
            if (!second.empty()) request.set_input_tensor(1, strings(second));
            run_and_wait(request);
            const ov::Tensor ids = request.get_tensor("input_ids");
            const ov::Shape& shape = ids.get_shape();
            if (shape.size() != 2 || shape[0] != first.size()) {
                return Error{ErrorCode::internal, "the tokenizer gave no row for each text", "", "please report this"};
            }
            Tokens tokens;
            tokens.count = shape[0];
            tokens.length = shape[1];
            tokens.ids = numbers(ids);
            tokens.mask = numbers(request.get_tensor("attention_mask"));
            for (const auto& output : request.get_compiled_model().outputs()) {
                if (output.get_names().contains("token_type_ids")) tokens.types = numbers(request.get_tensor(output));
            }
            return tokens;
        });
    }

    static Result<void> all_utf8(std::span<const std::string> texts, const char* what) {
        for (std::size_t i = 0; i < texts.size(); ++i) {
            if (const auto at = first_not_utf8(texts[i])) return not_utf8(texts[i], *at, what + std::to_string(i + 1));
        }
        return {};
    }
    static ov::Tensor strings(std::span<const std::string> texts) {
        ov::Tensor tensor(ov::element::string, {texts.size()});
        std::copy(texts.begin(), texts.end(), tensor.data<std::string>());
        return tensor;
    }
    static std::vector<std::int64_t> numbers(const ov::Tensor& tensor) {
        const auto* values = tensor.data<std::int64_t>();
        return {values, values + tensor.get_size()};
    }

    Settings settings_;
    TokenizerForm single_;
    std::optional<TokenizerForm> pair_;
};

} // namespace

Result<std::filesystem::path> tokenizers_library() {
    namespace fs = std::filesystem;
    std::error_code ignored;
    if (const char* set = std::getenv("LATHE_TOKENIZERS"); set != nullptr && *set != '\0') {
        if (fs::is_regular_file(set, ignored)) return fs::path(set);
        return Error{ErrorCode::not_found, "LATHE_TOKENIZERS names no file", set,
                     "set it to " + std::string(library_name) + ", or unset it"};
    }
    Dl_info info{};
    fs::path folder;
    if (::dladdr(reinterpret_cast<const void*>(&ov::get_openvino_version), &info) != 0 && info.dli_fname != nullptr) {
        folder = fs::weakly_canonical(info.dli_fname, ignored).parent_path();
        for (const fs::path& file : {folder / library_name, folder.parent_path().parent_path() / "openvino_tokenizers" /
                                                                "lib" / library_name}) {
            if (fs::is_regular_file(file, ignored)) return file;
        }
    }
    return Error{ErrorCode::not_found, "OpenVINO Tokenizers' library is not installed", folder.string(),
                 "pip install openvino-tokenizers beside OpenVINO, or set LATHE_TOKENIZERS to its " +
                     std::string(library_name)};
}

Result<std::shared_ptr<Tokenizer>> make_tokenizer(std::string_view description, std::size_t limit) {
    LATHE_TRY(const Json json, parse_json(description, "metadata lathe.tokenizer"));
    if (!json.is_object()) return damaged_tokenizer("it is no JSON object");
    if (json.value("format", Json()) != "openvino_tokenizers")
        return damaged_tokenizer("it is in a format not known here");
    const auto number = [&](const char* key) {
        const Json field = json.value(key, Json());
        return field.is_number_integer() ? field.get<std::int64_t>() : std::int64_t{-1};
    };
    const std::int64_t longest = number("max_length");
    if (longest < 1 || number("pad_id") < 0) return damaged_tokenizer("max_length or pad_id is missing");
    Settings settings;
    settings.max_length = static_cast<std::size_t>(longest);
    if (limit != 0) settings.max_length = std::min(settings.max_length, limit);
    settings.pad_id = number("pad_id");
    settings.separate = json.value("pairs", Json()) == "separate";
    const Json side = json.value("padding", Json("behind"));
    if (side != "behind" && side != "in front") return damaged_tokenizer("padding is neither behind nor in front");
    if (side == "in front") settings.side = PaddingSide::in_front;
    settings.digest = json.value("digest", Json("")).dump() + json.value("version", Json("")).dump();
    LATHE_CHECK(load_operators());
    const std::size_t fewer = static_cast<std::size_t>(longest) - settings.max_length;
    LATHE_TRY(TokenizerForm single, compile(json.value("single", Json()), fewer));
    std::optional<TokenizerForm> pair;
    if (json.contains("pair")) {
        LATHE_TRY(pair, compile(json["pair"], fewer));
    }
    return std::shared_ptr<Tokenizer>(
        std::make_shared<GraphTokenizer>(std::move(settings), std::move(single), std::move(pair)));
}

} // namespace lathe::openvino
