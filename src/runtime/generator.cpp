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

Generator::Generator(Reading reading, Decoding decoding, std::optional<Prompting> prompting)
    : reading_(std::move(reading)), sessions_{std::move(decoding.even), std::move(decoding.odd)},
      inputs_(std::move(decoding.info.inputs)), prompting_(std::move(prompting)), past_(reading_.decoder.past.size()) {}

Result<Generator> Generator::make(Decoding decoding, std::optional<Prompting> prompting) {
    LATHE_TRY(Reading reading, Reading::of(decoding.info, prompting ? &prompting->info : nullptr));
    return Generator(std::move(reading), std::move(decoding), std::move(prompting));
}

Result<std::span<const float>> Generator::begin(std::span<const std::int64_t> prompt, const RunCheck& check) {
    logits_.reset();
    LATHE_CHECK(reading_.check_prompt(prompt));
    const auto first = static_cast<std::size_t>(reading_.at_once(static_cast<std::int64_t>(prompt.size())));
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

Result<PromptRead> read_prompt(const Reading& reading, Generator::Prompting& prompting,
                               std::span<const std::int64_t> tokens) {
    const auto count = static_cast<std::int64_t>(tokens.size());
    const std::int64_t length = reading.filled(count);
    const auto padding = static_cast<std::size_t>(length - count);
    PromptRead read;
    std::vector<std::int64_t> ids(padding, 0);
    ids.insert(ids.end(), tokens.begin(), tokens.end());
    read.mask.assign(static_cast<std::size_t>(length), 1);
    std::fill_n(read.mask.begin(), padding, 0);
    std::vector<std::int64_t> positions(static_cast<std::size_t>(length), 0);
    std::iota(positions.begin() + static_cast<std::ptrdiff_t>(padding), positions.end(), 0);
    const Prefill& prefill = *reading.prefill;
    std::vector<TensorView> given;
    for (std::size_t i = 0; i < prompting.info.inputs.size(); ++i) {
        auto& values = i == prefill.ids ? ids : i == prefill.mask ? read.mask : positions;
        given.push_back(
            view_of(prompting.info.inputs[i].name, DataType::int64, {1, length}, std::span<std::int64_t>(values)));
    }
    LATHE_TRY(const std::vector<TensorView> outputs, prompting.session.run(given));
    for (const PastTensor& tensor : prefill.past)
        read.past.push_back(outputs[tensor.output]);
    read.logits = outputs[prefill.logits];
    return read;
}

Result<void> Generator::read_at_once(std::span<const std::int64_t> tokens) {
    LATHE_TRY(PromptRead read, read_prompt(reading_, *prompting_, tokens));
    past_ = std::move(read.past);
    logits_ = std::move(read.logits);
    mask_ = std::move(read.mask);
    length_ = static_cast<std::int64_t>(mask_.size());
    read_ = static_cast<std::int64_t>(tokens.size());
    turn_ = 0;
    return {};
}

void Generator::start_empty() {
    length_ = reading_.filled(0);
    read_ = 0;
    turn_ = 0;
    mask_.assign(static_cast<std::size_t>(length_), 0);
    std::size_t largest = 0;
    for (const PastTensor& tensor : reading_.decoder.past)
        largest =
            std::max(largest, byte_size(tensor.type, static_cast<std::size_t>(tensor.heads * length_ * tensor.width)));
    zeros_.assign(largest, std::byte{0});
    for (std::size_t i = 0; i < past_.size(); ++i) {
        const PastTensor& tensor = reading_.decoder.past[i];
        past_[i] = {tensor.name,
                    tensor.type,
                    {1, tensor.heads, length_, tensor.width},
                    std::span(zeros_).first(
                        byte_size(tensor.type, static_cast<std::size_t>(tensor.heads * length_ * tensor.width)))};
    }
}

Result<std::span<const float>> Generator::next(std::int64_t token) {
    LATHE_CHECK(reading_.check_tokens({&token, 1}));
    if (length_ > reading_.decoder.most) {
        return Error{ErrorCode::out_of_range,
                     "the text has become longer than the " + std::to_string(reading_.decoder.most) +
                         " tokens of a past that the engine takes",
                     "past_key_values", "build the engine for a longer past (--shape)"};
    }
    token_ = token;
    position_ = read_;
    mask_.resize(static_cast<std::size_t>(length_));
    mask_.push_back(1);
    given_.resize(inputs_.size());
    const std::span<std::int64_t> mask(mask_);
    given_[reading_.decoder.ids] =
        view_of(inputs_[reading_.decoder.ids].name, DataType::int64, {1, 1}, std::span(&token_, 1));
    given_[reading_.decoder.mask] =
        view_of(inputs_[reading_.decoder.mask].name, DataType::int64, {1, length_ + 1}, mask);
    if (reading_.decoder.positions) {
        given_[*reading_.decoder.positions] =
            view_of(inputs_[*reading_.decoder.positions].name, DataType::int64, {1, 1}, std::span(&position_, 1));
    }
    for (std::size_t i = 0; i < past_.size(); ++i) {
        TensorView& view = given_[reading_.decoder.past[i].input];
        view = past_[i];
        view.name = inputs_[reading_.decoder.past[i].input].name;
    }
    logits_.reset();
    LATHE_TRY(const std::vector<TensorView> outputs, sessions_[turn_].run(given_));
    turn_ ^= 1U;
    for (std::size_t i = 0; i < past_.size(); ++i)
        past_[i] = outputs[reading_.decoder.past[i].output];
    logits_ = outputs[reading_.decoder.logits];
    ++length_;
    ++read_;
    return scores();
}

Result<std::span<const float>> last_scores(const TensorView& logits, std::size_t text) {
    const auto values = logits.as<const float>();
    const auto texts = logits.shape.empty() ? 0 : static_cast<std::size_t>(logits.shape.front());
    const auto each = logits.shape.empty() ? 0 : static_cast<std::size_t>(logits.shape.back());
    if (text >= texts || each < 1 || values.size() / texts < each)
        return Error{ErrorCode::internal, "the engine gave no scores", "logits", "please report this"};
    const std::size_t row = values.size() / texts; // of all positions that were read
    return values.subspan(text * row + row - each, each);
}

Result<std::span<const float>> Generator::scores() const { return last_scores(logits_.value_or(TensorView{}), 0); }

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
    LATHE_CHECK(generator.reading().check_room(static_cast<std::int64_t>(prompt.size()), limits.most));
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
