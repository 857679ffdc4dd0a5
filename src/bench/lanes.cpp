#include "bench/lanes.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <mutex>
#include <optional>
#include <thread>

#include "support/affinity.hpp"

namespace lathe {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t stream_choices[] = {1, 2, 4, 8};

} // namespace

Result<Lanes> Lanes::open(const Engine& engine) {
    LATHE_TRY(const EngineMemory memory, engine.memory());
    LATHE_TRY(const Backend* backend, backend_for_device(engine.info().device));
    Lanes lanes;
    lanes.engine_ = &engine;
    for (const int device : memory.devices)
        lanes.devices_.push_back({device, backend->cpus_near(device)});
    return lanes;
}

/// The session's page-locked memory should lie near its GPU: it is made by a thread that runs there.
Result<void> Lanes::grow(Place& place, std::size_t count) {
    std::optional<Error> failure;
    std::thread([&] {
        stay_on_cpus(place.cpus);
        while (place.sessions.size() < count && !failure) {
            auto session = engine_->make_session_on(place.device);
            if (session)
                place.sessions.push_back(std::move(*session));
            else
                failure = std::move(session).error();
        }
    }).join();
    if (failure) return std::move(*failure);
    return {};
}

Result<Lanes::Choice> Lanes::best_streams(const SpreadPlan& plan, std::vector<std::vector<TensorView>>& sets,
                                          Progress& progress) {
    if (const auto found = best_.find(plan.inputs); found != best_.end()) return found->second;
    SpreadPlan trial = plan;
    trial.devices = 1;
    trial.seconds = std::min(0.4, plan.seconds / 6);
    Choice best;
    double best_qps = 0;
    for (const std::size_t count : stream_choices) {
        const auto served = run(trial, count, sets, progress);
        if (!served) {
            // More streams take more memory: what fits is good enough.
            if (served.error().code == ErrorCode::out_of_memory && best_qps > 0) break;
            return served.error();
        }
        best.trials.push_back({count, served->qps()});
        constexpr double worth = 1.01; // every stream takes memory
        if (served->qps() > worth * best_qps) {
            best.streams = count;
            best_qps = served->qps();
        } else if (count > best.streams * 2) {
            break;
        }
    }
    best_[plan.inputs] = best;
    return best;
}

Result<Throughput> Lanes::serve(const SpreadPlan& plan, std::vector<std::vector<TensorView>>& sets,
                                Progress& progress) {
    if (plan.devices == 0 || plan.devices > devices_.size()) {
        return Error{ErrorCode::invalid_argument,
                     std::to_string(plan.devices) + " devices were asked for, the engine runs on " +
                         std::to_string(devices_.size()),
                     "", ""};
    }
    LATHE_TRY(const Choice choice, best_streams(plan, sets, progress));
    LATHE_TRY(Throughput served, run(plan, choice.streams, sets, progress));
    served.trials = choice.trials;
    return served;
}

Result<Throughput> Lanes::run(const SpreadPlan& plan, std::size_t streams, std::vector<std::vector<TensorView>>& sets,
                              Progress& progress) {
    for (std::size_t d = 0; d < plan.devices; ++d)
        LATHE_CHECK(grow(devices_[d], streams));
    const std::size_t count = plan.devices * streams;
    const bool kept = plan.inputs == InputPlace::device;
    std::mutex mutex;
    std::optional<Error> failure;
    const auto fail = [&](Error error) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::move(error);
    };
    std::vector<std::size_t> served(count, 0);
    std::atomic<bool> go = false, stop = false;
    std::latch ready(static_cast<std::ptrdiff_t>(count));
    const auto work = [&](std::size_t lane) {
        Place& place = devices_[lane / streams];
        stay_on_cpus(place.cpus);
        Session& session = place.sessions[lane % streams];
        // Once before the clock starts: kernels are loaded and graphs recorded then.
        const auto first = [&]() -> Result<void> {
            LATHE_TRY(const auto outputs, session.run(sets[lane % sets.size()]));
            if (!kept) return {};
            LATHE_CHECK(session.keep(sets[lane % sets.size()]));
            LATHE_TRY(const auto again, session.rerun());
            return {};
        };
        if (auto begun = first(); !begun) {
            fail(std::move(begun).error());
            stop = true;
        }
        ready.count_down();
        go.wait(false);
        for (std::size_t set = lane; !stop.load(std::memory_order_relaxed); set += count) {
            auto outputs = kept ? session.rerun() : session.run(sets[set % sets.size()]);
            if (!outputs) {
                fail(std::move(outputs).error());
                stop = true;
                return;
            }
            ++served[lane];
        }
    };
    double seconds = 0;
    {
        std::vector<std::jthread> threads;
        for (std::size_t lane = 0; lane < count; ++lane)
            threads.emplace_back(work, lane);
        ready.wait();
        const auto start = Clock::now();
        go = true;
        go.notify_all();
        const auto end = start + std::chrono::duration<double>(plan.seconds);
        while (Clock::now() < end && !stop && !progress.cancelled())
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        stop = true;
        threads.clear();
        // Requests that were under way when the time was up are counted, and so is their time.
        seconds = std::chrono::duration<double>(Clock::now() - start).count();
    }
    LATHE_CHECK(progress.check());
    if (failure) return std::move(*failure);
    Throughput result;
    result.seconds = seconds;
    result.streams = count;
    for (std::size_t d = 0; d < plan.devices; ++d) {
        Throughput::Share share{devices_[d].device, 0, streams};
        for (std::size_t lane = d * streams; lane < (d + 1) * streams; ++lane)
            share.requests += served[lane];
        result.requests += share.requests;
        result.devices.push_back(share);
    }
    return result;
}

} // namespace lathe
