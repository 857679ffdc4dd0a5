#include "tasks/regression.hpp"

#include <cmath>
#include <limits>

namespace lathe {

namespace {

enum Sum : std::size_t { values, squared_error, absolute_error, total, squares, sum_count };

constexpr double nothing = std::numeric_limits<double>::quiet_NaN();

double explained(std::span<const double> sums) {
    if (sums.size() < sum_count || sums[values] < 1) return nothing;
    const double spread = sums[squares] - sums[total] * sums[total] / sums[values];
    // Below what cancellation leaves of it the truth is one number, of which nothing varies.
    if (spread <= 1e-12 * sums[squares]) return sums[squared_error] > 0 ? nothing : 1;
    return 1 - sums[squared_error] / spread;
}

double mean_squared_error(std::span<const double> sums) {
    return sums.size() < sum_count || sums[values] < 1 ? nothing : sums[squared_error] / sums[values];
}

class RegressionTask final : public CountedTask {
public:
    explicit RegressionTask(RegressionOptions options) : options_(options) {}
    std::string_view name() const override { return "regression"; }
    std::string_view metric_name() const override { return "R2 against the float network's own values"; }

    Result<Answer> answer(std::span<const HostTensor> outputs, std::size_t sample) const override {
        LATHE_TRY(const HostTensor* const found, output_at(outputs, options_.output));
        const HostTensor& output = *found;
        if (output.type != DataType::float32 || output.shape.empty() ||
            sample >= static_cast<std::size_t>(output.shape[0]))
            return unlike(output, "numbers for sample " + std::to_string(sample));
        const auto all = output.as<float>();
        const std::size_t size = all.size() / static_cast<std::size_t>(output.shape[0]);
        const auto own = all.subspan(sample * size, size);
        return Answer(Numbers{{output.shape.begin() + 1, output.shape.end()}, {own.begin(), own.end()}});
    }

    Result<std::vector<double>> count(const Answer& given, const Answer& expected) const override {
        const auto* mine = std::get_if<Numbers>(&given);
        const auto* truth = std::get_if<Numbers>(&expected);
        if (mine == nullptr || truth == nullptr || mine->values.size() != truth->values.size()) {
            return Error{ErrorCode::mismatch,
                         "the model gives " + (mine == nullptr ? "no numbers" : to_string(mine->shape)) +
                             ", the truth has " + (truth == nullptr ? "none" : to_string(truth->shape)),
                         "regression", "give targets of the output's own size"};
        }
        std::vector<double> counts(sum_count, 0.0);
        for (std::size_t i = 0; i < mine->values.size(); ++i) {
            const double t = truth->values[i];
            const double y = std::isfinite(mine->values[i]) ? mine->values[i] : 0.0F;
            if (!std::isfinite(t)) continue; // no truth there, as depth maps mark it
            counts[values] += 1;
            counts[squared_error] += (y - t) * (y - t);
            counts[absolute_error] += std::fabs(y - t);
            counts[total] += t;
            counts[squares] += t * t;
        }
        return counts;
    }

    std::vector<CountedFigure> figures() const override {
        std::vector<CountedFigure> all{
            {"r2", explained},
            {"mae",
             [](std::span<const double> sums) {
                 return sums.size() < sum_count ? nothing : sums[absolute_error] / sums[values];
             }},
            {"rmse", [](std::span<const double> sums) { return std::sqrt(mean_squared_error(sums)); }}};
        if (options_.peak > 0) {
            all.push_back({"psnr", [peak = options_.peak](std::span<const double> sums) {
                               const double error = mean_squared_error(sums);
                               return error > 0 ? 10 * std::log10(peak * peak / error) : nothing;
                           }});
        }
        return all;
    }

private:
    RegressionOptions options_;
};

} // namespace

std::unique_ptr<CountedTask> make_regression_task(RegressionOptions options) {
    return std::make_unique<RegressionTask>(options);
}

} // namespace lathe
