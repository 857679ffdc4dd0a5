#include "evaluate/squad_windows.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace lathe {

namespace {

Error untraceable(const std::string& why) {
    return {ErrorCode::unsupported, "this tokenizer's tokens cannot be traced back to the text: " + why,
            "metadata lathe.tokenizer", "--task squad works with WordPiece tokenizers, as BERT's"};
}

/// Pieces without white space between them.
struct Word {
    TextPiece whole;
    std::size_t pieces = 0;
};

/// A row's tokens without what fills it up.
std::vector<std::int64_t> row_of(const Tokens& tokens, std::size_t row, const std::vector<std::int64_t>& of) {
    std::vector<std::int64_t> values;
    for (std::size_t i = row * tokens.length; i < (row + 1) * tokens.length; ++i) {
        if (tokens.mask[i] != 0) values.push_back(of[i]);
    }
    return values;
}

} // namespace

Result<WindowMaker> WindowMaker::make(Tokenizer& tokenizer, const WindowOptions& options) {
    if (options.doc_stride == 0 || options.max_question == 0) {
        return Error{ErrorCode::invalid_argument, "a stride and a question have at least one token", "--doc-stride",
                     "128 and 64 are usual"};
    }
    WindowMaker maker(tokenizer, options);
    maker.options_.max_length = std::min(options.max_length, tokenizer.max_length());
    LATHE_CHECK(maker.learn_frame());
    return maker;
}

/// What stands around texts: seen on two texts of one token each.
Result<void> WindowMaker::learn_frame() {
    const std::array<std::string, 2> texts{"a", "b"};
    LATHE_TRY(const Tokens single, tokenizer_->encode(texts, {}));
    const auto a = row_of(single, 0, single.ids);
    const auto b = row_of(single, 1, single.ids);
    const auto differ = std::ranges::mismatch(a, b);
    head_ = static_cast<std::size_t>(differ.in1 - a.begin());
    if (a.size() != b.size() || head_ >= a.size()) return untraceable("\"a\" and \"b\" are no tokens of their own");
    tail_ = a.size() - head_ - 1;

    const std::array<std::string, 1> first{"a"};
    const std::array<std::string, 1> second{"b"};
    LATHE_TRY(const Tokens pair, tokenizer_->encode(first, second));
    const auto ids = row_of(pair, 0, pair.ids);
    const auto at_first = std::ranges::find(ids, a[head_]);
    const auto at_second = std::find(at_first, ids.end(), b[head_]);
    if (at_second == ids.end()) return untraceable("it does not join two texts");
    before_.assign(ids.begin(), at_first);
    between_.assign(at_first + 1, at_second);
    after_.assign(at_second + 1, ids.end());
    if (pair.types.empty()) return {};
    const auto types = row_of(pair, 0, pair.types);
    const std::size_t p = before_.size();
    const std::size_t q = p + 1 + between_.size();
    types_ = {p > 0 ? types[0] : types[p], types[p], between_.empty() ? types[p] : types[p + 1], types[q],
              after_.empty() ? types[q] : types[q + 1]};
    return {};
}

Result<std::vector<std::vector<std::int64_t>>> WindowMaker::encode(std::span<const std::string> texts) {
    std::vector<std::vector<std::int64_t>> rows;
    if (texts.empty()) return rows;
    LATHE_TRY(const Tokens tokens, tokenizer_->encode(texts, {}));
    for (std::size_t i = 0; i < tokens.count; ++i) {
        auto row = row_of(tokens, i, tokens.ids);
        if (row.size() < head_ + tail_) return untraceable("a text has no special tokens around it");
        row.erase(row.end() - static_cast<std::ptrdiff_t>(tail_), row.end());
        row.erase(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(head_));
        rows.push_back(std::move(row));
    }
    return rows;
}

Result<ContextTokens> WindowMaker::tokenize(const std::string& context) {
    const auto text_of = [&](const TextPiece& piece) { return context.substr(piece.begin, piece.end - piece.begin); };
    const std::vector<TextPiece> pieces = text_pieces(context);
    std::vector<Word> words;
    std::vector<std::string> texts;
    std::vector<std::string> joined;
    for (const TextPiece& piece : pieces) {
        texts.push_back(text_of(piece));
        if (!words.empty() && words.back().whole.end == piece.begin) {
            words.back().whole.end = piece.end;
            ++words.back().pieces;
        } else {
            words.push_back({piece, 1});
        }
    }
    for (const Word& word : words) {
        if (word.pieces > 1) joined.push_back(text_of(word.whole));
    }
    LATHE_TRY(const auto rows, encode(texts));
    LATHE_TRY(const auto joined_rows, encode(joined));
    ContextTokens tokens;
    const auto append = [&](const std::vector<std::int64_t>& row, const TextPiece& piece) {
        tokens.ids.insert(tokens.ids.end(), row.begin(), row.end());
        tokens.pieces.insert(tokens.pieces.end(), row.size(), piece);
    };
    std::size_t piece = 0;
    std::size_t join = 0;
    for (const Word& word : words) {
        std::vector<std::int64_t> apart;
        for (std::size_t i = 0; i < word.pieces; ++i)
            apart.insert(apart.end(), rows[piece + i].begin(), rows[piece + i].end());
        if (word.pieces > 1 && joined_rows[join] != apart) {
            append(joined_rows[join], word.whole);
        } else {
            for (std::size_t i = 0; i < word.pieces; ++i)
                append(rows[piece + i], pieces[piece + i]);
        }
        join += word.pieces > 1 ? 1 : 0;
        piece += word.pieces;
    }
    // The whole text is cut at the model's longest sample, so its tokens are the first of these.
    LATHE_TRY(const auto whole, encode(std::span(&context, 1)));
    const auto& expected = whole.front();
    if (expected.size() > tokens.ids.size() || !std::equal(expected.begin(), expected.end(), tokens.ids.begin())) {
        return untraceable("it joins words of \"" + context.substr(0, 40) + "...\"");
    }
    return tokens;
}

Result<std::vector<Window>> WindowMaker::windows(const std::string& question, const ContextTokens& context) {
    LATHE_TRY(auto asked, encode(std::span(&question, 1)));
    std::vector<std::int64_t>& words = asked.front();
    words.resize(std::min(words.size(), options_.max_question));
    const std::size_t taken = before_.size() + words.size() + between_.size() + after_.size();
    if (taken >= options_.max_length) {
        return Error{ErrorCode::out_of_range,
                     "the question takes " + std::to_string(taken) + " of " + std::to_string(options_.max_length) +
                         " tokens, which leaves no room for its context",
                     question.substr(0, 60), "raise --max-length, or build the engine for longer sequences"};
    }
    const std::size_t room = options_.max_length - taken;
    std::vector<Window> windows;
    std::size_t start = 0;
    do {
        const std::size_t count = std::min(room, context.ids.size() - start);
        Window window;
        const auto append = [&](std::size_t part, auto begin, auto end) {
            window.ids.insert(window.ids.end(), begin, end);
            if (!types_.empty()) window.types.resize(window.ids.size(), types_[part]);
        };
        append(0, before_.begin(), before_.end());
        append(1, words.begin(), words.end());
        append(2, between_.begin(), between_.end());
        window.first = window.ids.size();
        const auto from = context.ids.begin() + static_cast<std::ptrdiff_t>(start);
        append(3, from, from + static_cast<std::ptrdiff_t>(count));
        append(4, after_.begin(), after_.end());
        for (std::size_t i = 0; i < count; ++i)
            window.tokens.push_back(start + i);
        windows.push_back(std::move(window));
        if (start + count >= context.ids.size()) break;
        start += std::min(count, options_.doc_stride);
    } while (true);

    // A token counts where the smaller side of its context is largest; longer windows win ties, then earlier ones.
    std::vector<std::pair<double, std::size_t>> best(context.ids.size(), {-1.0, 0});
    for (std::size_t w = 0; w < windows.size(); ++w) {
        const std::size_t count = windows[w].tokens.size();
        for (std::size_t i = 0; i < count; ++i) {
            const double score = static_cast<double>(std::min(i, count - 1 - i)) + 0.01 * static_cast<double>(count);
            auto& leader = best[windows[w].tokens[i]];
            if (score > leader.first) leader = {score, w};
        }
    }
    for (std::size_t w = 0; w < windows.size(); ++w) {
        for (const std::size_t token : windows[w].tokens)
            windows[w].most_context.push_back(best[token].second == w);
    }
    return windows;
}

} // namespace lathe
