#include "api/quick_budget.hpp"

#include <algorithm>
#include <cstdint>

#include "api/profile.hpp"
#include "runtime/engine.hpp"
#include "support/clock.hpp"

namespace lathe {

namespace {

/// The minute, less what writing the report takes.
constexpr double budget_s = 57;

} // namespace

bool TimeLimited::expired() const { return seconds_since(start_) > seconds_; }

double QuickBudget::left() const { return quick_ ? budget_s - seconds_since(start_) : no_limit_s; }

double QuickBudget::share(double wanted, double later) const { return std::clamp(left() - later, 1.0, wanted); }

std::string QuickBudget::told() const {
    std::string line = "Left out or cut for a verdict within a minute (quick): ";
    for (std::size_t i = 0; i < cut_.size(); ++i)
        line += (i == 0 ? "" : ", ") + cut_[i];
    return line + ".";
}

void QuickBudget::fit(BenchRequest& request, const std::vector<std::string>& against, double sample_seconds) {
    constexpr double least_s = 8; // where earlier stages took all
    request.budget_s = std::max(least_s, left());
    constexpr double calls = 5; // that each subject makes at a batch size at least
    const auto cost = [&](double batch) {
        const auto subjects = static_cast<double>(request.engines.size() + request.against.size());
        return calls * subjects * batch * sample_seconds;
    };
    const auto smallest = static_cast<double>(request.batch_sizes.front());
    while (!request.against.empty() && cost(smallest) > 0.7 * request.budget_s) {
        cut(against.at(request.against.size() - 1));
        request.against.pop_back();
    }
    double total = cost(smallest);
    for (std::size_t i = 1; i < request.batch_sizes.size(); ++i) {
        total += cost(static_cast<double>(request.batch_sizes[i]));
        if (total <= 0.7 * request.budget_s) continue;
        for (std::size_t late = i; late < request.batch_sizes.size(); ++late)
            cut("batch " + std::to_string(request.batch_sizes[late]));
        request.batch_sizes.resize(i);
    }
}

double time_a_sample(const std::filesystem::path& file) {
    const auto engine = Engine::load(file);
    if (!engine) return 0;
    auto session = engine->make_session();
    if (!session) return 0;
    std::vector<HostTensor> zeros;
    std::vector<TensorView> views;
    for (const IoInfo& input : session->inputs())
        zeros.emplace_back(input.name, input.type, input.range.min);
    for (HostTensor& each : zeros)
        views.push_back(each.view());
    double seconds = 0;
    for (int run = 0; run < 2; ++run) {
        const auto start = std::chrono::steady_clock::now();
        if (!session->run(views)) return 0;
        const std::int64_t batch = zeros.empty() || zeros.front().shape.empty() ? 1 : zeros.front().shape[0];
        seconds = seconds_since(start) / static_cast<double>(std::max<std::int64_t>(1, batch));
    }
    return seconds;
}

} // namespace lathe
