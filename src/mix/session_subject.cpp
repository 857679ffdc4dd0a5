#include "mix/session_subject.hpp"

#include <chrono>
#include <utility>
#include <vector>

namespace lathe {

namespace {

class SessionSubject final : public Subject {
public:
    SessionSubject(SubjectInfo info, Session session) : Subject(std::move(info)), session_(std::move(session)) {}

private:
    Result<void> do_prepare(const InputSets& inputs, Progress& progress) override {
        LATHE_CHECK(progress.check());
        inputs_ = &inputs;
        next_set_ = 0;
        views_.clear();
        for (std::size_t i = 0; i < inputs.count(); ++i) {
            std::vector<TensorView> views;
            for (HostTensor& tensor : inputs.set(i))
                views.push_back(tensor.view());
            views_.push_back(std::move(views));
        }
        LATHE_TRY(const auto outputs, session_.run(views_[0]));
        if (outputs.empty()) return Error{ErrorCode::internal, "the engine gave no outputs", info().name, ""};
        return {};
    }

    Result<Burst> do_burst(const BurstPlan& plan, Progress& progress) override {
        LATHE_CHECK(progress.check());
        using Clock = std::chrono::steady_clock;
        auto burst = run_burst(plan, inputs_->count(), next_set_, [&](std::size_t set) -> Result<CallTime> {
            const auto start = Clock::now();
            auto outputs = session_.run(views_[set]);
            const auto done = Clock::now();
            if (!outputs) return std::move(outputs).error();
            return CallTime{std::chrono::duration<double, std::nano>(done - start).count(), 0, 0};
        });
        if (!burst) return burst;
        burst->copy_in_ns.clear();
        burst->copy_out_ns.clear();
        return burst;
    }

    Result<Throughput> do_throughput(double /*seconds*/, Progress& /*progress*/) override {
        return Error{ErrorCode::unsupported, "only latency is measured here", info().name, ""};
    }

    Session session_;
    const InputSets* inputs_ = nullptr;
    std::vector<std::vector<TensorView>> views_;
    std::size_t next_set_ = 0;
};

} // namespace

std::unique_ptr<Subject> make_session_subject(std::string name, Session session) {
    SubjectInfo info;
    info.name = std::move(name);
    return std::make_unique<SessionSubject>(std::move(info), std::move(session));
}

} // namespace lathe
