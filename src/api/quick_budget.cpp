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

namespace {

/// A session and zeros of the least shapes that it takes.
class OnZeros {
public:
    static std::optional<OnZeros> of(const Engine& engine) {
        auto session = engine.make_session();
        if (!session) return std::nullopt;
        return OnZeros(std::move(session).value());
    }

    /// Seconds of one run; nothing where it fails.
    std::optional<double> run() {
        std::vector<TensorView> views;
        for (HostTensor& each : zeros_)
            views.push_back(each.view());
        const auto start = std::chrono::steady_clock::now();
        if (!session_.run(views)) return std::nullopt;
        return seconds_since(start);
    }

    double batch() const {
        if (zeros_.empty() || zeros_.front().shape.empty()) return 1;
        return static_cast<double>(std::max<std::int64_t>(1, zeros_.front().shape[0]));
    }

private:
    explicit OnZeros(Session session) : session_(std::move(session)) {
        for (const IoInfo& input : session_.inputs())
            zeros_.emplace_back(input.name, input.type, input.range.min);
    }

    Session session_;
    std::vector<HostTensor> zeros_;
};

} // namespace

double time_a_sample(const std::filesystem::path& file) {
    const auto engine = Engine::load(file);
    if (!engine) return 0;
    auto zeros = OnZeros::of(*engine);
    if (!zeros || !zeros->run()) return 0;
    return zeros->run().value_or(0) / zeros->batch();
}

std::optional<double> speedup_on_zeros(const Engine& engine, const Engine& other) {
    std::optional<OnZeros> both[] = {OnZeros::of(engine), OnZeros::of(other)};
    double least[] = {no_limit_s, no_limit_s};
    constexpr int turns = 6; // the first warms up
    for (int turn = 0; turn < turns; ++turn) {
        for (std::size_t i = 0; i < 2; ++i) {
            const auto seconds = both[i] ? both[i]->run() : std::nullopt;
            if (!seconds) return std::nullopt;
            if (turn > 0) least[i] = std::min(least[i], *seconds);
        }
    }
    return least[1] > 0 ? std::optional(least[0] / least[1]) : std::nullopt;
}

} // namespace lathe
