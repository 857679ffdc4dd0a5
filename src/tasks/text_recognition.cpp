#include "tasks/text_recognition.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "data/text_pieces.hpp"
#include "support/edit_distance.hpp"

namespace lathe {

namespace {

constexpr const char* form = "text recognition takes NxTxC: T places, and a score for CTC's blank and each character";

class TextRecognitionTask final : public CountedTask {
public:
    explicit TextRecognitionTask(TextRecognitionOptions options) : options_(std::move(options)) {
        for (const std::string& character : options_.characters)
            characters_.push_back(code_points(character));
    }
    std::string_view name() const override { return "text-recognition"; }
    std::string_view metric_name() const override { return "character accuracy against what the float network reads"; }

    Result<Answer> answer(std::span<const HostTensor> outputs, std::size_t sample) const override {
        LATHE_TRY(const HostTensor* const found, output_at(outputs, options_.output));
        const HostTensor& output = *found;
        if (output.type != DataType::float32 || output.shape.size() != 3) return unlike(output, "float32 NxTxC", form);
        const auto places = static_cast<std::size_t>(output.shape[1]);
        const auto classes = static_cast<std::size_t>(output.shape[2]);
        const auto all = output.as<float>();
        if (classes != characters_.size() + 1 && classes != characters_.size() + 2) {
            return unlike(output,
                          "of " + std::to_string(characters_.size() + 1) + " classes, as the " +
                              std::to_string(characters_.size()) + " characters and the blank make",
                          form);
        }
        if (sample >= static_cast<std::size_t>(output.shape[0]) ||
            all.size() != static_cast<std::size_t>(output.shape[0]) * places * classes)
            return unlike(output, "with a sample " + std::to_string(sample), form);
        const std::size_t blank = options_.blank_last ? classes - 1 : 0;
        std::u32string text;
        std::size_t before = blank;
        for (std::size_t place = 0; place < places; ++place) {
            const auto scores = all.subspan((sample * places + place) * classes, classes);
            std::size_t best = blank;
            for (std::size_t c = 0; c < classes; ++c) {
                if (scores[c] > scores[best] || (std::isnan(scores[best]) && !std::isnan(scores[c]))) best = c;
            }
            if (best != before && best != blank) {
                const std::size_t index = options_.blank_last ? best : best - 1;
                text += index < characters_.size() ? characters_[index] : U" ";
            }
            before = best;
        }
        return Answer(std::move(text));
    }

    Result<std::vector<double>> count(const Answer& given, const Answer& expected) const override {
        const auto* mine = std::get_if<std::u32string>(&given);
        const auto* truth = std::get_if<std::u32string>(&expected);
        if (mine == nullptr || truth == nullptr)
            return Error{ErrorCode::mismatch, "no texts to compare", "text-recognition", ""};
        std::vector<double> counts(sum_count, 0.0);
        counts[edits] = static_cast<double>(edit_distance(*mine, *truth));
        counts[characters] = static_cast<double>(truth->size());
        counts[right] = *mine == *truth ? 1 : 0;
        counts[texts] = 1;
        return counts;
    }

    std::vector<CountedFigure> figures() const override {
        const auto share = [](std::span<const double> sums, Sum of, Sum among) {
            return sums.size() < sum_count ? std::nan("") : sums[of] / sums[among]; // 0 / 0 is NaN
        };
        return {{"character_accuracy",
                 [share](std::span<const double> sums) { return 1 - share(sums, edits, characters); }},
                {"cer", [share](std::span<const double> sums) { return share(sums, edits, characters); }},
                {"line_accuracy", [share](std::span<const double> sums) { return share(sums, right, texts); }}};
    }

private:
    enum Sum : std::size_t { edits, characters, right, texts, sum_count };

    TextRecognitionOptions options_;
    std::vector<std::u32string> characters_;
};

} // namespace

std::unique_ptr<CountedTask> make_text_recognition_task(TextRecognitionOptions options) {
    return std::make_unique<TextRecognitionTask>(std::move(options));
}

} // namespace lathe
