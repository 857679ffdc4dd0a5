#include "runtime/generator.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "lathe/types.hpp"

namespace lathe {

namespace {

template <class T>
TensorView view_of(const std::string& name, DataType type, Shape shape, std::span<T> values) {
    return {name, type, std::move(shape), std::as_writable_bytes(values)};
}

} // namespace

Generator::Generator(Decoder decoder, Decoding decoding, std::optional<Prefill> prefill,
                     std::optional<Prompting> prompting)
    : decoder_(std::move(decoder)), sessions_{std::move(decoding.even), std::move(decoding.odd)},
      inputs_(std::move(decoding.info.inputs)), prefill_(std::move(prefill)), prompting_(std::move(prompting)),
      past_(decoder_.past.size()) {}

Result<Generator> Generator::make(Decoding decoding, std::optional<Prompting> prompting) {
    LATHE_TRY(Decoder decoder, Decoder::of(decoding.info));
    std::optional<Prefill> prefill;
    if (prompting) {
        LATHE_TRY(prefill, Prefill::of(prompting->info, decoder));
    }
    return Generator(std::move(decoder), std::move(decoding), std::move(prefill), std::move(prompting));
}

std::int64_t Generator::at_once(std::int64_t prompt) const { return prefill_ ? std::min(prompt, prefill_->most) : 0; }

std::int64_t Generator::filled(std::int64_t tokens) const {
    // A past of no tokens is one masked place: not every backend takes tensors without elements.
    return std::max({tokens, decoder_.least, prefill_ ? prefill_->least : std::int64_t{1}});
}

std::int64_t Generator::most_after(std::int64_t prompt) const {
    const std::int64_t first = at_once(prompt);
    // The last token of all is not read any more.
    const std::int64_t steps = std::max<std::int64_t>(0, decoder_.most - filled(first) + 1);
    return steps - (prompt - first) + 1;
}

Result<void> Generator::check_tokens(std::span<const std::int64_t> tokens) const {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        const bool known = tokens[i] >= 0 && (decoder_.vocabulary == 0 || tokens[i] < decoder_.vocabulary);
        if (known) continue;
        return Error{ErrorCode::invalid_argument,
                     std::to_string(tokens[i]) + " is not in the vocabulary of " + std::to_string(decoder_.vocabulary) +
                         " tokens",
                     "input_ids " + std::to_string(i), ""};
    }
    return {};
}

Result<std::span<const float>> Generator::begin(std::span<const std::int64_t> prompt, const RunCheck& check) {
    logits_.reset();
    if (prompt.empty()) {
        return Error{ErrorCode::invalid_argument, "there is no token to go on from", "input_ids",
                     "give one at least, such as the token that begins texts"};
    }
    LATHE_CHECK(check_tokens(prompt));
    const auto count = static_cast<std::int64_t>(prompt.size());
    if (most_after(count) < 1) {
        return Error{ErrorCode::out_of_range,
                     "a prompt of " + std::to_string(count) + " tokens is longer than the " +
                         std::to_string(count + most_after(count) - 1) + " that the engine takes",
                     "input_ids", "shorten it, or build the engine for a longer past (--shape)"};
    }
    const auto first = static_cast<std::size_t>(at_once(count));
    if (first > 0) {
        if (check) LATHE_CHECK(check());
        LATHE_CHECK(read_at_once(prompt.first(first)));
    } else {
        start_empty();
    }
    for (const std::int64_t token : prompt.subspan(first)) {
        if (check) LATHE_CHECK(check());
        LATHE_CHECK(next(token));
    }
    return scores();
}

Result<void> Generator::read_at_once(std::span<const std::int64_t> tokens) {
    const auto count = static_cast<std::int64_t>(tokens.size());
    const std::int64_t length = filled(count);
    const auto padding = static_cast<std::size_t>(length - count);
    std::vector<std::int64_t> ids(padding, 0);
    ids.insert(ids.end(), tokens.begin(), tokens.end());
    mask_.assign(static_cast<std::size_t>(length), 1);
    std::fill_n(mask_.begin(), padding, 0);
    std::vector<std::int64_t> positions(static_cast<std::size_t>(length), 0);
    std::iota(positions.begin() + static_cast<std::ptrdiff_t>(padding), positions.end(), 0);
    given_.clear();
    for (std::size_t i = 0; i < prompting_->info.inputs.size(); ++i) {
        auto& values = i == prefill_->ids ? ids : i == prefill_->mask ? mask_ : positions;
        given_.push_back(
            view_of(prompting_->info.inputs[i].name, DataType::int64, {1, length}, std::span<std::int64_t>(values)));
    }
    LATHE_TRY(const std::vector<TensorView> outputs, prompting_->session.run(given_));
    for (std::size_t i = 0; i < past_.size(); ++i)
        past_[i] = outputs[prefill_->past[i].output];
    logits_ = outputs[prefill_->logits];
    length_ = length;
    read_ = count;
    turn_ = 0;
    return {};
}

void Generator::start_empty() {
    length_ = filled(0);
    read_ = 0;
    turn_ = 0;
    mask_.assign(static_cast<std::size_t>(length_), 0);
    std::size_t largest = 0;
    for (const PastTensor& tensor : decoder_.past)
        largest =
            std::max(largest, byte_size(tensor.type, static_cast<std::size_t>(tensor.heads * length_ * tensor.width)));
    zeros_.assign(largest, std::byte{0});
    for (std::size_t i = 0; i < past_.size(); ++i) {
        const PastTensor& tensor = decoder_.past[i];
        past_[i] = {tensor.name,
                    tensor.type,
                    {1, tensor.heads, length_, tensor.width},
                    std::span(zeros_).first(
                        byte_size(tensor.type, static_cast<std::size_t>(tensor.heads * length_ * tensor.width)))};
    }
}

Result<std::span<const float>> Generator::next(std::int64_t token) {
    LATHE_CHECK(check_tokens({&token, 1}));
    if (length_ > decoder_.most) {
        return Error{ErrorCode::out_of_range,
                     "the text has become longer than the " + std::to_string(decoder_.most) +
                         " tokens of a past that the engine takes",
                     "past_key_values", "build the engine for a longer past (--shape)"};
    }
    token_ = token;
    position_ = read_;
    mask_.resize(static_cast<std::size_t>(length_));
    mask_.push_back(1);
    given_.resize(inputs_.size());
    const std::span<std::int64_t> mask(mask_);
    given_[decoder_.ids] = view_of(inputs_[decoder_.ids].name, DataType::int64, {1, 1}, std::span(&token_, 1));
    given_[decoder_.mask] = view_of(inputs_[decoder_.mask].name, DataType::int64, {1, length_ + 1}, mask);
    if (decoder_.positions) {
        given_[*decoder_.positions] =
            view_of(inputs_[*decoder_.positions].name, DataType::int64, {1, 1}, std::span(&position_, 1));
    }
    for (std::size_t i = 0; i < past_.size(); ++i) {
        TensorView& view = given_[decoder_.past[i].input];
        view = past_[i];
        view.name = inputs_[decoder_.past[i].input].name;
    }
    logits_.reset();
    LATHE_TRY(const std::vector<TensorView> outputs, sessions_[turn_].run(given_));
    turn_ ^= 1U;
    for (std::size_t i = 0; i < past_.size(); ++i)
        past_[i] = outputs[decoder_.past[i].output];
    logits_ = outputs[decoder_.logits];
    ++length_;
    ++read_;
    return scores();
}

Result<std::span<const float>> Generator::scores() const {
    if (!logits_ || logits_->shape.empty() || logits_->shape.back() < 1) {
        return Error{ErrorCode::internal, "the engine gave no scores", "logits", "please report this"};
    }
    const auto values = logits_->as<const float>();
    return values.last(static_cast<std::size_t>(logits_->shape.back()));
}

Result<std::int64_t> TokenChoice::choose(std::span<const float> scores) {
    std::size_t best = 0;
    for (std::size_t i = 0; i < scores.size(); ++i) {
        if (std::isnan(scores[i]) || scores[i] == INFINITY) {
            return Error{ErrorCode::internal,
                         "the score of token " + std::to_string(i) +
                             (std::isnan(scores[i]) ? " is NaN" : " is infinite"),
                         "logits", "look for the layer at fault with lathe compare, or build in a wider precision"};
        }
        if (scores[i] > scores[best]) best = i;
    }
    if (scores.empty() || scores[best] == -INFINITY)
        return Error{ErrorCode::internal, "no token has a score", "logits", ""};
    if (sampling_.temperature <= 0) return static_cast<std::int64_t>(best);
    order_.resize(scores.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    const std::size_t kept = sampling_.top_k == 0 ? scores.size() : std::min(sampling_.top_k, scores.size());
    const auto likelier = [&](std::size_t a, std::size_t b) {
        return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
    };
    if (kept < scores.size())
        std::partial_sort(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(kept), order_.end(), likelier);
    weights_.resize(kept);
    double sum = 0;
    for (std::size_t i = 0; i < kept; ++i) {
        const double below = static_cast<double>(scores[order_[i]]) - static_cast<double>(scores[best]);
        weights_[i] = std::exp(below / static_cast<double>(sampling_.temperature));
        sum += weights_[i];
    }
    // Written out, since what std::uniform_real_distribution makes of the bits is not fixed by the standard.
    constexpr double unit = 1.0 / 9007199254740992.0; // 2^-53
    double left = static_cast<double>(random_() >> 11U) * unit * sum;
    for (std::size_t i = 0; i < kept; ++i) {
        left -= weights_[i];
        if (left < 0) return static_cast<std::int64_t>(order_[i]);
    }
    return static_cast<std::int64_t>(best);
}

Result<void> generate(Generator& generator, std::span<const std::int64_t> prompt, const GenerationLimits& limits,
                      const Sampling& sampling, const RunCheck& check, const TakeToken& take) {
    if (limits.most < 1)
        return Error{ErrorCode::invalid_argument, "there are no tokens to make", "max_tokens", "ask for 1 or more"};
    const auto count = static_cast<std::int64_t>(prompt.size());
    const std::int64_t room = generator.most_after(count);
    if (room >= 1 && limits.most > room) { // longer prompts are told by begin
        return Error{ErrorCode::out_of_range,
                     std::to_string(limits.most) + " tokens behind a prompt of " + std::to_string(count) +
                         " are more than the " + std::to_string(room) + " that the engine has room for",
                     "max_tokens", "ask for fewer, or build the engine for a longer past (--shape)"};
    }
    TokenChoice choice(sampling);
    LATHE_TRY(std::span<const float> scores, generator.begin(prompt, check));
    for (std::int64_t made = 1;; ++made) {
        LATHE_TRY(const std::int64_t token, choice.choose(scores));
        const bool last = made == limits.most || token == limits.end;
        LATHE_CHECK(take(token, last));
        if (last) return {};
        if (check) LATHE_CHECK(check());
        LATHE_TRY(scores, generator.next(token));
    }
}

} // namespace lathe
