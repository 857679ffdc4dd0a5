#include "bench/engine_subject.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "bench/lanes.hpp"
#include "support/thread_pool.hpp"

namespace lathe {

namespace {

using Clock = std::chrono::steady_clock;

/// Compiled copies cost memory and time to make; past this many the gain is small.
constexpr std::size_t most_streams = 32;

/// Requests of different shapes, one after another in a session of their own.
class EngineRequests final : public RequestList {
public:
    static Result<std::unique_ptr<RequestList>> make(const Engine& engine, Requests& requests, Progress& progress) {
        LATHE_TRY(Session session, engine.make_session());
        std::unique_ptr<EngineRequests> list(new EngineRequests(std::move(session)));
        std::set<std::vector<Shape>> seen;
        for (std::vector<HostTensor>& request : requests) {
            LATHE_CHECK(progress.check());
            std::vector<Shape> shapes;
            std::vector<TensorView>& views = list->views_.emplace_back();
            for (HostTensor& tensor : request) {
                shapes.push_back(tensor.shape);
                views.push_back(tensor.view());
            }
            if (!seen.insert(std::move(shapes)).second) continue;
            LATHE_TRY(const auto outputs, list->session_.run(views));
        }
        return std::unique_ptr<RequestList>(std::move(list));
    }

    Result<std::vector<double>> run(std::size_t first, std::size_t count, Progress& progress) override {
        LATHE_CHECK(progress.check());
        LATHE_TRY(const auto woken, session_.run(views_[first]));
        std::vector<double> times;
        for (std::size_t i = first; i < first + count; ++i) {
            const auto start = Clock::now();
            const auto outputs = session_.run(views_[i]);
            times.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count());
            if (!outputs) return outputs.error();
        }
        return times;
    }

private:
    explicit EngineRequests(Session session) : session_(std::move(session)) {}

    Session session_;
    std::vector<std::vector<TensorView>> views_;
};

class EngineSubject final : public Subject {
public:
    EngineSubject(SubjectInfo info, Engine engine) : Subject(std::move(info)), engine_(std::move(engine)) {
        if (const auto memory = engine_.memory()) devices_ = memory->devices.size();
    }

    std::size_t devices() const override { return devices_; }
    bool runs_other_sizes() const override { return !other_views_.empty(); }

    Json memory() const override {
        const auto memory = engine_.memory();
        if (!memory) return nullptr;
        return {{"weights", memory->weights},
                {"activations", memory->activations},
                {"workspace", memory->workspace},
                {"staging", memory->staging},
                {"peak", memory->peak}};
    }

private:
    Result<void> do_prepare(const InputSets& inputs, Progress& progress) override {
        LATHE_CHECK(progress.check());
        inputs_ = &inputs;
        next_set_ = 0;
        views_.clear();
        if (lanes_) lanes_->forget();
        for (std::size_t i = 0; i < inputs.count(); ++i) {
            std::vector<TensorView> views;
            for (HostTensor& tensor : inputs.set(i))
                views.push_back(tensor.view());
            views_.push_back(std::move(views));
        }
        if (!session_) {
            LATHE_TRY(Session session, engine_.make_session());
            session_.emplace(std::move(session));
        }
        LATHE_TRY(const auto outputs, session_->run(views_[0]));
        times_of_ = TimesOf::unknown;
        if (outputs.empty()) return Error{ErrorCode::internal, "the engine gave no outputs", info().file.string(), ""};
        make_other_size();
        return {};
    }

    /// Zeros for one sample less, or one more where there is one only: what comes before a call in a server.
    void make_other_size() {
        other_views_.clear();
        other_.clear();
        for (const HostTensor& tensor : inputs_->set(0)) {
            const auto input = std::ranges::find(engine_.info().inputs, tensor.name, &IoInfo::name);
            Shape shape = tensor.shape;
            if (input == engine_.info().inputs.end() || shape.empty()) return;
            shape[0] += shape[0] > input->range.min[0] ? -1 : 1;
            if (!input->range.contains(shape)) return;
            other_.emplace_back(tensor.name, tensor.type, std::move(shape));
        }
        for (HostTensor& tensor : other_)
            other_views_.push_back(tensor.view());
    }

    Result<std::unique_ptr<RequestList>> do_take(Requests& requests, Progress& progress) override {
        return EngineRequests::make(engine_, requests, progress);
    }

    Result<Burst> do_burst(const BurstPlan& plan, Progress& progress) override {
        LATHE_CHECK(progress.check());
        auto burst = run_burst(plan, inputs_->count(), next_set_, [&](std::size_t set) -> Result<CallTime> {
            if (plan.other_size) LATHE_CHECK(session_->run(other_views_));
            const auto start = Clock::now();
            auto outputs = session_->run(views_[set]);
            const auto done = Clock::now();
            if (!outputs) return std::move(outputs).error();
            touch(*outputs);
            return CallTime{std::chrono::duration<double, std::nano>(done - start).count(), 0, 0};
        });
        if (!burst) return burst;
        // On the CPU inputs are read and outputs written in place: there is no copy beside the call to report.
        burst->copy_in_ns.clear();
        burst->copy_out_ns.clear();
        if (times_of_ != TimesOf::nothing) LATHE_CHECK(add_device_times(*burst));
        return burst;
    }

    /// Copies and kernels by the device's clock, from a few runs beside the timed ones (the events cost some time).
    Result<void> add_device_times(Burst& burst) {
        if (const auto on = session_->set_timing(true); !on) {
            times_of_ = TimesOf::nothing;
            return {};
        }
        times_of_ = TimesOf::device;
        constexpr int runs = 3;
        for (int i = 0; i < runs; ++i) {
            LATHE_TRY(const auto outputs, session_->run(views_[next_set_]));
            next_set_ = (next_set_ + 1) % views_.size();
            touch(outputs);
            LATHE_TRY(const RunTimes times, session_->times());
            burst.copy_in_ns.push_back(times.copy_in_ms * 1e6);
            burst.copy_out_ns.push_back(times.copy_out_ms * 1e6);
            burst.device_ns.push_back(times.compute_ms * 1e6);
        }
        return session_->set_timing(false);
    }

    /// One session with all cores, or a single-threaded engine a core: whichever serves more in a short trial.
    Result<Throughput> do_throughput(double seconds, Progress& progress) override {
        if (devices() > 0) return do_spread({seconds, devices(), InputPlace::host}, progress);
        const std::size_t cores = std::min(available_cores(), most_streams);
        if (cores < 2) return serve({&*session_}, seconds, progress);
        if (streams_.empty()) {
            EngineLoadOptions options;
            options.threads = 1;
            for (std::size_t i = 0; i < cores; ++i) {
                LATHE_CHECK(progress.check());
                LATHE_TRY(const Engine engine, Engine::load(info().file, options));
                LATHE_TRY(Session session, engine.make_session());
                streams_.push_back(std::move(session));
            }
        }
        std::vector<Session*> many;
        for (Session& session : streams_)
            many.push_back(&session);
        const double trial = std::min(1.0, seconds / 4);
        LATHE_TRY(const Throughput alone, serve({&*session_}, trial, progress));
        LATHE_TRY(const Throughput together, serve(many, trial, progress));
        if (alone.qps() >= together.qps()) many = {&*session_};
        LATHE_TRY(Throughput served, serve(many, seconds, progress));
        served.trials = {{1, alone.qps()}, {cores, together.qps()}};
        return served;
    }

    Result<Throughput> do_spread(const SpreadPlan& plan, Progress& progress) override {
        if (!lanes_) {
            LATHE_TRY(Lanes lanes, Lanes::open(engine_));
            lanes_.emplace(std::move(lanes));
        }
        return lanes_->serve(plan, views_, progress);
    }

    Result<Throughput> serve(const std::vector<Session*>& sessions, double seconds, Progress& progress) {
        for (std::size_t i = 0; i < sessions.size(); ++i) {
            LATHE_CHECK(progress.check());
            LATHE_TRY(const auto warm, sessions[i]->run(views_[i % views_.size()]));
            touch(warm);
        }
        std::atomic<std::size_t> requests{0};
        std::mutex mutex;
        std::optional<Error> failure;
        const auto start = Clock::now();
        const auto deadline = start + std::chrono::duration<double>(seconds);
        const auto stream = [&](std::size_t number) {
            for (std::size_t set = number; Clock::now() < deadline && !progress.cancelled(); set += sessions.size()) {
                auto outputs = sessions[number]->run(views_[set % views_.size()]);
                if (!outputs) {
                    const std::lock_guard lock(mutex);
                    failure = std::move(outputs).error();
                    return;
                }
                requests.fetch_add(1, std::memory_order_relaxed);
            }
        };
        {
            std::vector<std::jthread> threads;
            for (std::size_t i = 1; i < sessions.size(); ++i)
                threads.emplace_back(stream, i);
            stream(0);
        }
        const double took = std::chrono::duration<double>(Clock::now() - start).count();
        LATHE_CHECK(progress.check());
        if (failure) return std::move(*failure);
        return Throughput{requests.load(), took, sessions.size()};
    }

    void touch(const std::vector<TensorView>& outputs) {
        for (const TensorView& output : outputs)
            if (!output.bytes.empty())
                touched_ = static_cast<std::uint8_t>(touched_ ^ std::to_integer<std::uint8_t>(output.bytes.back()));
    }

    /// Whether the engine can tell times of its device.
    enum class TimesOf { unknown, nothing, device };

    Engine engine_;
    TimesOf times_of_ = TimesOf::unknown;
    std::optional<Session> session_;
    std::vector<Session> streams_;
    std::size_t devices_ = 0;
    std::optional<Lanes> lanes_;
    const InputSets* inputs_ = nullptr;
    std::vector<std::vector<TensorView>> views_;
    std::vector<HostTensor> other_;
    std::vector<TensorView> other_views_; ///< empty where the engine runs no other batch size
    std::size_t next_set_ = 0;
    volatile std::uint8_t touched_ = 0;
};

} // namespace

std::unique_ptr<Subject> make_engine_subject(SubjectInfo info, Engine engine) {
    return std::make_unique<EngineSubject>(std::move(info), std::move(engine));
}

Result<std::vector<InputSpec>> engine_inputs(const EngineInfo& info, std::int64_t batch) {
    std::vector<InputSpec> specs;
    for (const IoInfo& input : info.inputs) {
        Shape shape = input.range.opt;
        // A further input of a fixed size is no batch's: a recurrent state, or edges beside the nodes of a graph.
        const auto is_fixed = [](const IoInfo& one) { return one.range.min == one.range.max; };
        const bool state = !specs.empty() && is_fixed(input) && (batch == 1 || is_fixed(info.inputs.front()));
        if (!shape.empty() && !state) shape[0] = batch;
        if (!input.range.contains(shape)) {
            return Error{ErrorCode::out_of_range,
                         "batch size " + std::to_string(batch) + " is outside the engine's range " +
                             input.range.describe(),
                         input.name, "choose --batch-sizes within it, or build the engine with a wider --shape"};
        }
        specs.push_back({input.name, input.type, std::move(shape)});
    }
    return specs;
}

} // namespace lathe
