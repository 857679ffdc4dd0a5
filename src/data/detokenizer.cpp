#include "data/detokenizer.hpp"

#include <array>
#include <optional>
#include <utility>

#include "data/text_pieces.hpp"
#include "support/json.hpp"

namespace lathe {

namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD"; // U+FFFD

Error damaged(const std::string& what) {
    return {ErrorCode::parse_error, "the model's tokenizer cannot be read: " + what, "metadata lathe.tokenizer",
            "export the model again"};
}

/// GPT-2 writes each byte as a character: those that can be seen as themselves, the others from U+0100 on, in order.
std::unordered_map<char32_t, char> bytes_by_character() {
    std::unordered_map<char32_t, char> bytes;
    char32_t next = 256;
    for (char32_t byte = 0; byte < 256; ++byte) {
        const bool seen = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
        bytes.emplace(seen ? byte : next++, static_cast<char>(static_cast<unsigned char>(byte)));
    }
    return bytes;
}

/// The bytes that a token of the vocabulary stands for; one with a character that stands for no byte is itself.
std::string bytes_of(const std::string& token) {
    static const std::unordered_map<char32_t, char> known = bytes_by_character();
    std::string bytes;
    for (const char32_t character : code_points(token)) {
        const auto found = known.find(character);
        if (found == known.end()) return token;
        bytes += found->second;
    }
    return bytes;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
        text.replace(at, from.size(), to);
}

/// As Hugging Face's WordPiece decoder does to each token.
std::string cleaned_up(std::string text) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 11> rules{{{" .", "."},
                                                                                   {" ?", "?"},
                                                                                   {" !", "!"},
                                                                                   {" ,", ","},
                                                                                   {" ' ", "'"},
                                                                                   {" n't", "n't"},
                                                                                   {" 'm", "'m"},
                                                                                   {" do not", " don't"},
                                                                                   {" 's", "'s"},
                                                                                   {" 've", "'ve"},
                                                                                   {" 're", "'re"}}};
    for (const auto& [from, to] : rules)
        replace_all(text, from, to);
    return text;
}

/// Bytes of the UTF-8 sequence that begins here: how many it has, and how many of them, from the first on, may stand in
/// one (Unicode's maximal subpart of an ill-formed sequence). `wanted` is 0 for a byte that begins none.
struct Sequence {
    std::size_t wanted = 0;
    std::size_t good = 0;
};

Sequence sequence_at(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned first = byte(0);
    if (first < 0x80) return {1, 1};
    Sequence found;
    unsigned low = 0x80;
    unsigned high = 0xBF;
    if (first >= 0xC2 && first <= 0xDF) {
        found.wanted = 2;
    } else if (first >= 0xE0 && first <= 0xEF) {
        found.wanted = 3;
        if (first == 0xE0) low = 0xA0;
        if (first == 0xED) high = 0x9F;
    } else if (first >= 0xF0 && first <= 0xF4) {
        found.wanted = 4;
        if (first == 0xF0) low = 0x90;
        if (first == 0xF4) high = 0x8F;
    } else {
        return found;
    }
    found.good = 1;
    while (found.good < found.wanted && found.good < text.size()) {
        const unsigned next = byte(found.good);
        if (next < low || next > high) break;
        low = 0x80;
        high = 0xBF;
        ++found.good;
    }
    return found;
}

/// Whole characters of the bytes, U+FFFD for what is none; `held` keeps the beginning of one that may go on.
std::string whole_characters(std::string& held) {
    std::string text;
    std::string_view left = held;
    while (!left.empty()) {
        const Sequence sequence = sequence_at(left);
        if (sequence.wanted == 0) {
            text += replacement;
            left.remove_prefix(1);
        } else if (sequence.good == sequence.wanted) {
            text += left.substr(0, sequence.good);
            left.remove_prefix(sequence.good);
        } else if (sequence.good == left.size()) {
            break;
        } else {
            text += replacement;
            left.remove_prefix(sequence.good);
        }
    }
    held = std::string(left);
    return text;
}

/// "ByteLevel", or where there is a sequence of decoders the only one in it.
Json decoder_of(const Json& tokenizer) {
    Json decoder = tokenizer.value("decoder", Json());
    if (decoder.is_object() && decoder.value("type", Json()) == "Sequence") {
        const Json list = decoder.value("decoders", Json::array());
        if (list.is_array() && list.size() == 1) decoder = list[0];
    }
    return decoder;
}

} // namespace

Result<std::shared_ptr<const Detokenizer>> Detokenizer::of(std::string_view description) {
    const Json whole = Json::parse(description, nullptr, false);
    if (!whole.is_object()) return damaged("it is no JSON object");
    const Json tokenizer = whole.value("huggingface", Json());
    if (!tokenizer.is_object()) {
        return Error{ErrorCode::unsupported, "the model's tokenizer tells no text of its tokens",
                     "metadata lathe.tokenizer", "export the model with a fast tokenizer (tokenizer.json)"};
    }
    const Json decoder = decoder_of(tokenizer);
    const std::string type = decoder.is_object() && decoder.contains("type") && decoder["type"].is_string()
                                 ? decoder["type"].get<std::string>()
                                 : "";
    auto made = std::make_shared<Detokenizer>();
    if (type == "WordPiece") {
        made->kind_ = Kind::word_piece;
        const Json prefix = decoder.value("prefix", Json("##"));
        made->prefix_ = prefix.is_string() ? prefix.get<std::string>() : "##";
        made->cleanup_ = decoder.value("cleanup", Json(true)) == true;
    } else if (type != "ByteLevel") {
        return Error{ErrorCode::unsupported,
                     "tokens become text by " + (type.empty() ? std::string("no decoder") : type) +
                         " in this tokenizer, and only ByteLevel and WordPiece are known here",
                     "metadata lathe.tokenizer", "turn the token ids into text with the model's own tokenizer"};
    }
    const auto add = [&](std::int64_t id, const std::string& token) {
        made->pieces_[id] = made->kind_ == Kind::byte_level ? bytes_of(token) : token;
    };
    const Json model = tokenizer.value("model", Json());
    const Json vocabulary = model.is_object() ? model.value("vocab", Json()) : Json();
    if (!vocabulary.is_object()) return damaged("it has no vocabulary");
    for (const auto& [token, id] : vocabulary.items()) {
        if (!id.is_number_integer()) return damaged("the vocabulary's \"" + token + "\" has no id");
        add(id.get<std::int64_t>(), token);
    }
    const Json added = tokenizer.value("added_tokens", Json::array());
    for (const Json& each : added.is_array() ? added : Json::array()) {
        const bool known = each.is_object() && each.contains("id") && each["id"].is_number_integer() &&
                           each.contains("content") && each["content"].is_string();
        if (!known) return damaged("an added token has no id");
        const auto id = each["id"].get<std::int64_t>();
        add(id, each["content"].get<std::string>());
        if (each.value("special", Json(false)) == true) made->special_[id] = true;
    }
    return std::shared_ptr<const Detokenizer>(std::move(made));
}

TextWriter::TextWriter(std::shared_ptr<const Detokenizer> detokenizer, std::span<const std::int64_t> before)
    : detokenizer_(std::move(detokenizer)) {
    for (const std::int64_t token : before)
        (void)next(token);
}

std::string TextWriter::next(std::int64_t token) {
    if (detokenizer_->special_.contains(token)) return {};
    const auto found = detokenizer_->pieces_.find(token);
    if (found == detokenizer_->pieces_.end()) return {};
    const bool first = !std::exchange(begun_, true);
    if (detokenizer_->kind_ == Detokenizer::Kind::byte_level) {
        held_ += found->second;
        return whole_characters(held_);
    }
    std::string piece = found->second;
    if (!first) {
        if (!detokenizer_->prefix_.empty() && piece.starts_with(detokenizer_->prefix_)) {
            piece.erase(0, detokenizer_->prefix_.size());
        } else {
            piece.insert(0, " ");
        }
    }
    return detokenizer_->cleanup_ ? cleaned_up(std::move(piece)) : piece;
}

std::string TextWriter::end() {
    if (held_.empty()) return {};
    held_.clear();
    return std::string(replacement);
}

} // namespace lathe
