#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/subject.hpp"

namespace lathe::test {

/// A subject whose calls take as long as `duration_ns(call number)` says, on a clock that tests turn by hand.
class FakeSubject final : public Subject {
public:
    FakeSubject(std::string name, double& clock_seconds, std::function<double(std::size_t)> duration_ns)
        : Subject(named(std::move(name))), clock_seconds_(clock_seconds), duration_ns_(std::move(duration_ns)) {}

    std::size_t calls = 0;
    std::size_t fail_after_bursts = static_cast<std::size_t>(-1);
    Error failure{ErrorCode::internal, "the subject broke", "", ""};
    std::vector<std::string>* turns = nullptr; ///< takes the name at each burst
    bool other_sizes = false;
    bool runs_other_sizes() const override { return other_sizes; }

private:
    static SubjectInfo named(std::string name) {
        SubjectInfo info;
        info.name = std::move(name);
        return info;
    }
    Result<void> do_prepare(const InputSets&, Progress&) override { return {}; }
    Result<Burst> do_burst(const BurstPlan& plan, Progress&) override {
        if (turns != nullptr) turns->push_back(info().name);
        if (bursts_++ >= fail_after_bursts) return failure;
        return run_burst(plan, 1, set_, [&](std::size_t) -> Result<CallTime> {
            const double time = duration_ns_(calls++) * (plan.pause_ms > 0 ? 3 : plan.other_size ? 2 : 1);
            clock_seconds_ += time * 1e-9;
            return CallTime{time, 100, 10};
        });
    }
    Result<Throughput> do_throughput(double, Progress&) override { return Throughput{}; }

    double& clock_seconds_;
    std::function<double(std::size_t)> duration_ns_;
    std::size_t bursts_ = 0;
    std::size_t set_ = 0;
};

} // namespace lathe::test
