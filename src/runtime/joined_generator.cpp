#include "runtime/joined_generator.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <string>
#include <utility>

#include "lathe/types.hpp"

namespace lathe {

namespace {

TensorView view_of(const IoInfo& input, Shape shape, std::vector<std::int64_t>& values) {
    return {input.name, DataType::int64, std::move(shape), std::as_writable_bytes(std::span(values))};
}

std::size_t row_bytes(const PastTensor& tensor) {
    return byte_size(tensor.type, static_cast<std::size_t>(tensor.width));
}

std::string what_happened(const std::exception& failure) {
    return std::string("the text cannot be continued: ") + failure.what();
}

} // namespace

/// A text under way. Its caller waits for `ended`; all else is the working thread's, once the text was handed over.
struct JoinedGenerator::Text {
    Text(const Sampling& sampling, const GenerationLimits& limits_, const RunCheck& check_, const TakeToken& take_)
        : choice(sampling), limits(limits_), check(check_), take(take_) {}

    std::int64_t places() const { return static_cast<std::int64_t>(mask.size()); }
    /// Chooses the next token and hands it on. True once the text is done.
    Result<bool> go_on(std::span<const float> scores) {
        LATHE_TRY(const std::int64_t token, choice.choose(scores));
        const bool last = ++made == limits.most || token == limits.end;
        LATHE_CHECK(take(token, last));
        next = token;
        return last;
    }

    TokenChoice choice;
    GenerationLimits limits;
    const RunCheck& check;
    const TakeToken& take;
    std::int64_t made = 0;
    std::vector<std::int64_t> unread;         ///< of the prompt, by the decoder, the last first
    std::int64_t next = 0;                    ///< token that the next run reads
    std::int64_t read = 0;                    ///< tokens
    std::vector<std::int64_t> mask;           ///< one a place of its own past
    std::vector<std::vector<std::byte>> past; ///< before its first run, [1, heads, places, width] each
    bool ended = false;
    Result<void> result;
};

JoinedGenerator::JoinedGenerator(Reading reading, Generator::Decoding decoding,
                                 std::optional<Generator::Prompting> prompting)
    : reading_(std::move(reading)),
      inputs_(std::move(decoding.info.inputs)), sessions_{std::move(decoding.even), std::move(decoding.odd)}, most_(1),
      prompting_(std::move(prompting)) {}

std::int64_t JoinedGenerator::most_texts(const EngineInfo& decoder) {
    std::int64_t most = std::numeric_limits<std::int64_t>::max();
    for (const IoInfo& input : decoder.inputs)
        most = std::min(most, input.range.max.empty() ? 1 : input.range.max.front());
    return decoder.inputs.empty() ? 1 : std::max<std::int64_t>(1, most);
}

Result<std::unique_ptr<JoinedGenerator>> JoinedGenerator::make(Generator::Decoding decoding,
                                                               std::optional<Generator::Prompting> prompting) {
    LATHE_TRY(Reading reading, Reading::of(decoding.info, prompting ? &prompting->info : nullptr));
    const auto most = static_cast<std::size_t>(most_texts(decoding.info));
    std::unique_ptr<JoinedGenerator> made(
        new JoinedGenerator(std::move(reading), std::move(decoding), std::move(prompting)));
    made->most_ = most;
    made->own_.resize(made->reading_.decoder.past.size());
    made->past_.resize(made->reading_.decoder.past.size());
    made->thread_ = std::thread([generator = made.get()] { generator->work(); });
    return made;
}

JoinedGenerator::~JoinedGenerator() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

Result<void> JoinedGenerator::generate(std::span<const std::int64_t> prompt, const GenerationLimits& limits,
                                       const Sampling& sampling, const RunCheck& check, const TakeToken& take) {
    LATHE_CHECK(reading_.check_room(static_cast<std::int64_t>(prompt.size()), limits.most));
    LATHE_CHECK(reading_.check_prompt(prompt));
    Text text(sampling, limits, check, take);
    const auto first = static_cast<std::size_t>(reading_.at_once(static_cast<std::int64_t>(prompt.size())));
    text.unread.assign(prompt.rbegin(), prompt.rend() - static_cast<std::ptrdiff_t>(first));
    if (first > 0) {
        if (check) LATHE_CHECK(check());
        LATHE_CHECK(read_prompt(text, prompt.first(first)));
        if (text.made == limits.most || (text.made > 0 && text.next == limits.end)) return {};
    } else {
        text.mask.assign(static_cast<std::size_t>(reading_.filled(0)), 0);
        for (const PastTensor& tensor : reading_.decoder.past) {
            const auto rows = static_cast<std::size_t>(tensor.heads * text.places());
            text.past.emplace_back(rows * row_bytes(tensor), std::byte{0});
        }
    }
    if (!text.unread.empty()) {
        text.next = text.unread.back();
        text.unread.pop_back();
    }
    std::unique_lock lock(mutex_);
    waiting_.push_back(&text);
    changed_.notify_all();
    done_.wait(lock, [&] { return text.ended; });
    return std::move(text.result);
}

/// On the caller's thread, so that others' steps go on meanwhile; one prompt at a time.
Result<void> JoinedGenerator::read_prompt(Text& text, std::span<const std::int64_t> prompt) {
    const std::lock_guard lock(prompt_mutex_);
    LATHE_TRY(PromptRead read, lathe::read_prompt(reading_, *prompting_, prompt));
    for (const TensorView& view : read.past)
        text.past.emplace_back(view.bytes.begin(), view.bytes.end());
    text.mask = std::move(read.mask);
    text.read = static_cast<std::int64_t>(prompt.size());
    if (!text.unread.empty()) return {}; // the decoder reads the rest
    LATHE_TRY(const auto scores, last_scores(read.logits, 0));
    LATHE_TRY(const bool done, text.go_on(scores));
    static_cast<void>(done); // the caller looks
    return {};
}

void JoinedGenerator::work() {
    while (true) {
        {
            std::unique_lock lock(mutex_);
            const auto idle = [&] { return std::ranges::all_of(texts_, [](const Text* text) { return !text; }); };
            changed_.wait(lock, [&] { return stop_ || !waiting_.empty() || !idle(); });
            if (stop_ && waiting_.empty() && idle()) return;
        }
        Result<void> ran;
        try {
            let_in();
            drop_cancelled();
            ran = step();
        } catch (const std::exception& failure) {
            ran = Error{ErrorCode::out_of_memory, what_happened(failure), "", ""};
        }
        if (ran) continue;
        for (Text*& text : texts_) {
            if (text != nullptr) finish(*std::exchange(text, nullptr), ran.error());
        }
        rearrange_ = true;
    }
}

/// Those that wait get the places that are free.
void JoinedGenerator::let_in() {
    const std::lock_guard lock(mutex_);
    auto running = static_cast<std::size_t>(std::ranges::count_if(texts_, [](const Text* text) { return text; }));
    while (running < most_ && !waiting_.empty()) {
        texts_.push_back(waiting_.front());
        waiting_.erase(waiting_.begin());
        rearrange_ = true;
        ++running;
    }
}

void JoinedGenerator::drop_cancelled() {
    for (Text*& text : texts_) {
        if (text == nullptr || !text->check) continue;
        if (auto on = text->check(); !on) {
            finish(*std::exchange(text, nullptr), std::move(on).error());
            rearrange_ = true;
        }
    }
}

void JoinedGenerator::finish(Text& text, Result<void> result) {
    const std::lock_guard lock(mutex_);
    text.result = std::move(result);
    text.ended = true; // from here on it is its caller's
    done_.notify_all();
}

/// One token of every text.
Result<void> JoinedGenerator::step() {
    if (rearrange_ || length_ > reading_.decoder.most) arrange();
    if (texts_.empty()) return {};
    const Decoder& decoder = reading_.decoder;
    const auto count = static_cast<std::int64_t>(texts_.size());
    ids_.clear();
    positions_.clear();
    masks_.clear();
    for (const Text* text : texts_) {
        ids_.push_back(text->next);
        positions_.push_back(text->read);
        masks_.insert(masks_.end(), static_cast<std::size_t>(length_ - text->places()), 0);
        masks_.insert(masks_.end(), text->mask.begin(), text->mask.end());
        masks_.push_back(1);
    }
    given_.resize(inputs_.size());
    given_[decoder.ids] = view_of(inputs_[decoder.ids], {count, 1}, ids_);
    given_[decoder.mask] = view_of(inputs_[decoder.mask], {count, length_ + 1}, masks_);
    if (decoder.positions) given_[*decoder.positions] = view_of(inputs_[*decoder.positions], {count, 1}, positions_);
    for (std::size_t i = 0; i < past_.size(); ++i) {
        TensorView& view = given_[decoder.past[i].input];
        view = past_[i];
        view.name = inputs_[decoder.past[i].input].name;
    }
    logits_.reset();
    LATHE_TRY(const std::vector<TensorView> outputs, sessions_[turn_].run(given_));
    turn_ ^= 1U;
    for (std::size_t i = 0; i < past_.size(); ++i)
        past_[i] = outputs[decoder.past[i].output];
    logits_ = outputs[decoder.logits];
    ++length_;
    for (Text* text : texts_) {
        text->mask.push_back(1);
        ++text->read;
    }
    take_tokens();
    return {};
}

void JoinedGenerator::take_tokens() {
    for (std::size_t i = 0; i < texts_.size(); ++i) {
        Text& text = *texts_[i];
        if (!text.unread.empty()) {
            text.next = text.unread.back();
            text.unread.pop_back();
            continue;
        }
        Result<bool> done = true;
        try {
            const auto scores = last_scores(*logits_, i);
            if (scores) {
                done = text.go_on(*scores);
            } else {
                done = scores.error();
            }
        } catch (const std::exception& failure) {
            done = Error{ErrorCode::out_of_memory, what_happened(failure), "", ""};
        }
        if (done && !*done) continue;
        finish(text, done ? Result<void>() : Result<void>(std::move(done).error()));
        texts_[i] = nullptr;
        rearrange_ = true;
    }
}

/// Puts the past of the texts that are there side by side, each at the end of as many places as the longest has.
void JoinedGenerator::arrange() {
    std::vector<Text*> there;
    std::vector<std::optional<std::size_t>> rows; // in past_
    for (std::size_t i = 0; i < texts_.size(); ++i) {
        if (texts_[i] == nullptr) continue;
        there.push_back(texts_[i]);
        rows.push_back(texts_[i]->past.empty() ? std::optional(i) : std::nullopt);
    }
    std::int64_t length = 0;
    for (const Text* text : there)
        length = std::max(length, text->places());
    for (std::size_t i = 0; i < past_.size() && !there.empty(); ++i) {
        const PastTensor& tensor = reading_.decoder.past[i];
        const std::size_t row = row_bytes(tensor);
        const auto heads = static_cast<std::size_t>(tensor.heads);
        const auto wide = static_cast<std::size_t>(length) * row;
        const std::size_t bytes = there.size() * heads * wide;
        if (own_[i].size() < bytes) own_[i].resize(bytes);
        std::byte* to = own_[i].data();
        for (std::size_t t = 0; t < there.size(); ++t) {
            const auto part = static_cast<std::size_t>(there[t]->places()) * row;
            const std::size_t stride = rows[t] ? static_cast<std::size_t>(length_) * row : part;
            const std::byte* from =
                rows[t] ? past_[i].bytes.data() + *rows[t] * heads * stride : there[t]->past[i].data();
            for (std::size_t head = 0; head < heads; ++head, from += stride, to += wide) {
                std::memset(to, 0, wide - part);
                std::memcpy(to + wide - part, from + stride - part, part);
            }
        }
        past_[i] = {tensor.name,
                    tensor.type,
                    {static_cast<std::int64_t>(there.size()), tensor.heads, length, tensor.width},
                    std::span(own_[i]).first(bytes)};
    }
    for (Text* text : there)
        text->past.clear();
    texts_ = std::move(there);
    length_ = length;
    rearrange_ = false;
}

} // namespace lathe
