#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/run.hpp"
#include "support/progress.hpp"

namespace lathe {

/// Cancels a part of the job when its time is over.
class TimeLimited final : public Progress {
public:
    TimeLimited(Progress& inner, double seconds) : inner_(inner), seconds_(seconds) {}
    bool expired() const;
    void begin(std::string_view stage, std::size_t total) override { inner_.begin(stage, total); }
    void advance(std::size_t steps) override { inner_.advance(steps); }
    void end() override { inner_.end(); }
    bool cancelled() const override { return inner_.cancelled() || expired(); }

private:
    Progress& inner_;
    double seconds_;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// The minute of a quick job (`lathe optimize --quick`), from where it is made, and what was cut or left out for it. Of
/// any other job the time is without end.
class QuickBudget {
public:
    explicit QuickBudget(bool quick) : quick_(quick) {}

    /// Seconds that are left.
    double left() const;
    /// Seconds for a stage that wants `wanted` and must leave `later` to those behind it.
    double share(double wanted, double later) const;

    void cut(std::string what) { cut_.push_back(std::move(what)); }
    bool any_cut() const { return !cut_.empty(); }
    /// Everything that was cut, in a sentence.
    std::string told() const;

    /// Peers and batch sizes of which a few calls each have room in what is left, by the seconds that a sample takes of
    /// the float network. `against`: how the request's peers were named.
    void fit(BenchRequest& request, const std::vector<std::string>& against, double sample_seconds);

private:
    bool quick_;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
    std::vector<std::string> cut_; ///< in the order of the stages
};

/// Seconds a sample of an engine: the second of two runs on zeros. 0 where it cannot be told.
double time_a_sample(const std::filesystem::path& engine);

} // namespace lathe
