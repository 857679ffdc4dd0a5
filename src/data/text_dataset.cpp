#include "data/text_dataset.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "data/labels.hpp"
#include "data/text_pieces.hpp"
#include "data/text_table.hpp"
#include "support/hash.hpp"

namespace lathe {

namespace {

/// Where rows come from.
class Rows {
public:
    virtual ~Rows() = default;
    virtual std::size_t count() const = 0;
    virtual bool has_pairs() const = 0;
    virtual bool has_labels() const = 0;
    virtual Result<TextRow> read(std::size_t row) const = 0;
    virtual std::string name(std::size_t row) const = 0;
    virtual std::string digest() const = 0;
};

class FileRows final : public Rows {
public:
    explicit FileRows(TextTable table) : table_(std::move(table)) {}
    std::size_t count() const override { return table_.rows(); }
    bool has_pairs() const override { return table_.has_pairs(); }
    bool has_labels() const override { return table_.has_labels(); }
    Result<TextRow> read(std::size_t row) const override { return table_.read(row); }
    std::string name(std::size_t row) const override { return std::to_string(row); }
    std::string digest() const override { return table_.digest() + " " + table_.columns(); }

private:
    TextTable table_;
};

class MemoryRows final : public Rows {
public:
    MemoryRows(std::vector<std::string> texts, std::vector<std::string> pairs)
        : texts_(std::move(texts)), pairs_(std::move(pairs)) {}
    std::size_t count() const override { return texts_.size(); }
    bool has_pairs() const override { return !pairs_.empty(); }
    bool has_labels() const override { return false; }
    Result<TextRow> read(std::size_t row) const override {
        TextRow result{texts_[row], pairs_.empty() ? std::string() : pairs_[row], {}};
        for (const std::string* text : {&result.text, &result.pair}) {
            if (const auto at = first_not_utf8(*text)) {
                return not_utf8(*text, *at,
                                (text == &result.text ? "text " : "second text ") + std::to_string(row + 1) + " of " +
                                    std::to_string(texts_.size()));
            }
        }
        return result;
    }
    std::string name(std::size_t row) const override { return texts_[row]; }
    std::string digest() const override {
        Hasher hasher;
        for (const auto* list : {&texts_, &pairs_}) {
            hasher.update(static_cast<std::int64_t>(list->size()));
            for (const std::string& text : *list) {
                hasher.update(static_cast<std::int64_t>(text.size()));
                hasher.update(text);
            }
        }
        return hasher.hex();
    }

private:
    std::vector<std::string> texts_;
    std::vector<std::string> pairs_;
};

/// Sizes of the batches: what the model leaves open, and where it is fixed.
struct Lengths {
    std::size_t least = 0; ///< filled up to
    std::size_t most = 0;  ///< 0: whatever the tokenizer gives
};

Result<Lengths> lengths_of(const std::vector<InputSpec>& inputs, const TextOptions& text) {
    Lengths lengths{text.min_length, text.max_length};
    for (const InputSpec& input : inputs) {
        static const std::set<std::string_view> known{"input_ids", "attention_mask", "token_type_ids", "position_ids"};
        if (!known.contains(input.name)) {
            return Error{ErrorCode::unsupported, "text does not fill this input", input.name,
                         "it fills input_ids, attention_mask, token_type_ids and position_ids; give a .npz file with "
                         "all inputs"};
        }
        if (input.shape.size() != 2 || (input.type != DataType::int64 && input.type != DataType::int32)) {
            return Error{ErrorCode::unsupported,
                         "the input is " + to_string(input.type) + " " + to_string(input.shape) +
                             ", tokens are integers of batch x sequence",
                         input.name, ""};
        }
        if (input.shape[1] >= 0)
            lengths = {static_cast<std::size_t>(input.shape[1]), static_cast<std::size_t>(input.shape[1])};
    }
    return lengths;
}

std::optional<double> parse_score(const std::string& text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
    return value;
}

class TextDataset final : public Dataset {
public:
    TextDataset(std::unique_ptr<Rows> rows, std::shared_ptr<Tokenizer> tokenizer, std::vector<InputSpec> inputs,
                Lengths lengths, const DatasetOptions& options)
        : rows_(std::move(rows)), tokenizer_(std::move(tokenizer)), inputs_(std::move(inputs)), lengths_(lengths),
          labels_(rows_->has_labels() ? options.text.labels : TextLabels::none), class_names_(options.text.class_names),
          // Two texts whose outputs are compared are samples of their own in any model.
          sides_(rows_->has_pairs() &&
                         (tokenizer_->separates_pairs() || (labels_ == TextLabels::scores && !options.text.joint))
                     ? 2
                     : 1),
          chosen_(choose_samples(rows_->count(), of_rows(options, sides_))) {}

    std::size_t size() const override { return chosen_.size() * sides_; }
    bool has_labels() const override { return labels_ != TextLabels::none; }
    void rewind() override { position_ = 0; }

    Result<std::optional<Batch>> next(std::size_t count) override {
        count = std::min(count, size() - position_);
        if (count == 0) return std::optional<Batch>{};
        Batch batch;
        std::vector<std::string> first;
        std::vector<std::string> second;
        for (std::size_t i = position_; i < position_ + count; ++i) {
            const std::size_t index = chosen_[i / sides_];
            LATHE_TRY(TextRow row, rows_->read(index));
            batch.names.push_back(rows_->name(index) + (sides_ == 1 ? "" : i % sides_ == 0 ? ", first" : ", second"));
            LATHE_CHECK(add_label(row, batch));
            if (sides_ == 1 && rows_->has_pairs()) second.push_back(std::move(row.pair));
            first.push_back(i % sides_ == 0 ? std::move(row.text) : std::move(row.pair));
        }
        auto tokens = tokenizer_->encode(first, second);
        if (!tokens) return std::move(tokens).error().in(batch.names.front());
        LATHE_CHECK(every_row_has_tokens(*tokens, batch.names));
        LATHE_TRY(batch.cut, tokenizer_->count_cut(first, second, *tokens));
        batch.token_limit = tokenizer_->max_length();
        for (const InputSpec& input : inputs_)
            batch.inputs.push_back(token_tensor(input, *tokens, lengths_.least, *tokenizer_));
        position_ += count;
        return std::optional<Batch>(std::move(batch));
    }

    Result<std::string> digest() const override {
        Hasher hasher;
        hasher.update(rows_->digest() + " " + tokenizer_->digest());
        hasher.update(static_cast<std::int64_t>(sides_));
        return hasher.hex();
    }

private:
    /// Of samples: a row may hold two.
    static DatasetOptions of_rows(DatasetOptions options, std::size_t sides) {
        options.samples = (options.samples + sides - 1) / sides;
        if (options.part) {
            const std::size_t end = options.part->first + options.part->count;
            options.part->first = (options.part->first + sides - 1) / sides;
            options.part->count = (end + sides - 1) / sides - options.part->first;
        }
        return options;
    }

    /// Tokenizers without special tokens make none of an empty text.
    static Result<void> every_row_has_tokens(const Tokens& tokens, const std::vector<std::string>& names) {
        for (std::size_t row = 0; row < tokens.count; ++row) {
            const auto begin = tokens.mask.begin() + static_cast<std::ptrdiff_t>(row * tokens.length);
            if (std::find(begin, begin + static_cast<std::ptrdiff_t>(tokens.length), 1) ==
                begin + static_cast<std::ptrdiff_t>(tokens.length)) {
                return Error{ErrorCode::invalid_argument, "the text has no tokens", "sample \"" + names[row] + "\"",
                             "leave empty texts out"};
            }
        }
        return {};
    }

    Result<void> add_label(const TextRow& row, Batch& batch) const {
        batch.labels.push_back(-1);
        if (labels_ == TextLabels::none) return {};
        const auto score = parse_score(row.label);
        if (labels_ == TextLabels::scores) {
            if (!score) return bad_label(row.label, "not a number", batch.names.back());
            batch.scores.push_back(*score);
            return {};
        }
        constexpr double most_classes = 1e6;
        if (score && *score >= 0 && *score == std::floor(*score) && *score < most_classes) {
            batch.labels.back() = static_cast<std::int64_t>(*score);
            return {};
        }
        if (const auto named = find_class(class_names_, row.label)) {
            batch.labels.back() = *named;
            return {};
        }
        if (class_names_.empty()) {
            Error error = bad_label(row.label, "not the index of a class", batch.names.back());
            error.hint += "; labels in words need a model with class names (lathe export --labels FILE)";
            return error;
        }
        Error error = bad_label(row.label, "neither the index of a class nor the name of one", batch.names.back());
        error.hint = "the model knows " + known_classes() + "; " + error.hint;
        return error;
    }

    /// The model's class names, or the first of them.
    std::string known_classes() const {
        constexpr std::size_t most = 12;
        std::string list;
        for (std::size_t i = 0; i < std::min(most, class_names_.size()); ++i)
            list += (i == 0 ? "" : ", ") + class_name(class_names_, static_cast<std::int64_t>(i));
        return class_names_.size() <= most ? list
                                           : list + " and " + std::to_string(class_names_.size() - most) + " more";
    }

    static Error bad_label(const std::string& label, const std::string& fault, const std::string& row) {
        return {ErrorCode::parse_error, "the label \"" + label.substr(0, 40) + "\" is " + fault, "sample " + row,
                "name the right column with --columns text=...,label=..."};
    }

    std::unique_ptr<Rows> rows_;
    std::shared_ptr<Tokenizer> tokenizer_;
    std::vector<InputSpec> inputs_;
    Lengths lengths_;
    TextLabels labels_;
    std::vector<std::string> class_names_;
    std::size_t sides_;
    std::vector<std::size_t> chosen_;
    std::size_t position_ = 0;
};

Result<std::unique_ptr<Dataset>> make(std::unique_ptr<Rows> rows, const std::string& where,
                                      const std::vector<InputSpec>& inputs, const DatasetOptions& options) {
    if (options.pictures) {
        return Error{ErrorCode::invalid_argument, "the data are texts, not pictures", where,
                     "leave preprocessing to the CPU, or give pictures"};
    }
    if (options.text.tokenizer.empty()) {
        return Error{ErrorCode::unsupported, "the model carries no tokenizer, so it cannot take texts", where,
                     "export it with lathe export from a folder with tokenizer.json, or give arrays (.npz)"};
    }
    if (!options.text.make_tokenizer) {
        return Error{ErrorCode::unsupported, "no tokenizer library is at hand", where, ""};
    }
    LATHE_TRY(const Lengths lengths, lengths_of(inputs, options.text));
    LATHE_TRY(auto tokenizer, options.text.make_tokenizer(options.text.tokenizer, lengths.most));
    if (options.text.labels == TextLabels::scores && (!rows->has_pairs() || !rows->has_labels())) {
        return Error{ErrorCode::invalid_argument, "similarity needs two text columns and a score", where,
                     "name them with --columns text=...,pair=...,label=..."};
    }
    return std::unique_ptr<Dataset>(
        std::make_unique<TextDataset>(std::move(rows), std::move(tokenizer), inputs, lengths, options));
}

/// 0, 1, 2, ... over each row's tokens; 0 at padding.
std::vector<std::int64_t> positions_of(const Tokens& tokens) {
    std::vector<std::int64_t> positions(tokens.mask.size(), 0);
    for (std::size_t row = 0; row < tokens.count; ++row) {
        std::int64_t next = 0;
        for (std::size_t i = row * tokens.length; i < (row + 1) * tokens.length; ++i) {
            if (tokens.mask[i] != 0) positions[i] = next++;
        }
    }
    return positions;
}

} // namespace

HostTensor token_tensor(const InputSpec& input, const Tokens& tokens, std::size_t least, const Tokenizer& tokenizer) {
    const std::size_t length = std::max(tokens.length, least);
    const bool ids = input.name == "input_ids";
    const std::vector<std::int64_t> positions =
        input.name == "position_ids" ? positions_of(tokens) : std::vector<std::int64_t>{};
    const std::vector<std::int64_t>& values = ids                              ? tokens.ids
                                              : input.name == "attention_mask" ? tokens.mask
                                              : input.name == "position_ids"   ? positions
                                                                               : tokens.types;
    const std::size_t skipped = tokenizer.padding_side() == PaddingSide::in_front ? length - tokens.length : 0;
    HostTensor tensor(input.name, input.type,
                      {static_cast<std::int64_t>(tokens.count), static_cast<std::int64_t>(length)});
    const auto fill = [&](auto out) {
        using Value = typename decltype(out)::value_type;
        std::ranges::fill(out, static_cast<Value>(ids ? tokenizer.pad_id() : 0));
        for (std::size_t row = 0; row < tokens.count && !values.empty(); ++row) {
            for (std::size_t i = 0; i < tokens.length; ++i)
                out[row * length + skipped + i] = static_cast<Value>(values[row * tokens.length + i]);
        }
    };
    if (input.type == DataType::int64) {
        fill(tensor.as<std::int64_t>());
    } else {
        fill(tensor.as<std::int32_t>());
    }
    return tensor;
}

bool is_text_file(const std::filesystem::path& path) {
    static const std::set<std::string> extensions{".tsv", ".csv", ".jsonl", ".txt"};
    return extensions.contains(path.extension().string());
}

Result<std::unique_ptr<Dataset>> open_text_dataset(const std::filesystem::path& path,
                                                   const std::vector<InputSpec>& inputs,
                                                   const DatasetOptions& options) {
    LATHE_TRY(const TextColumns columns, parse_text_columns(options.text.columns));
    LATHE_TRY(TextTable table, TextTable::open(path, columns));
    return make(std::make_unique<FileRows>(std::move(table)), path.string(), inputs, options);
}

Result<std::unique_ptr<Dataset>> dataset_of_texts(std::vector<std::string> texts, std::vector<std::string> pairs,
                                                  const std::vector<InputSpec>& inputs, const DatasetOptions& options) {
    if (texts.empty() || (!pairs.empty() && pairs.size() != texts.size())) {
        return Error{ErrorCode::invalid_argument,
                     std::to_string(pairs.size()) + " second texts for " + std::to_string(texts.size()) + " texts", "",
                     "give as many second texts as texts, or none"};
    }
    return make(std::make_unique<MemoryRows>(std::move(texts), std::move(pairs)), "texts", inputs, options);
}

} // namespace lathe
