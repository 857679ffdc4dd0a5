#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "bench/subject.hpp"
#include "lathe/result.hpp"
#include "runtime/engine.hpp"
#include "support/progress.hpp"

namespace lathe {

/// Sessions of one engine over its GPUs, each with a thread of its own on the processors near its GPU. The GPUs share
/// nothing while they serve.
class Lanes {
public:
    /// `engine` outlives the lanes.
    static Result<Lanes> open(const Engine& engine);

    std::size_t devices() const { return devices_.size(); }
    /// As many streams a device as serve the most in short trials on the first one (kept until `forget`), then the
    /// measurement. `sets`: the inputs of one request each.
    Result<Throughput> serve(const SpreadPlan& plan, std::vector<std::vector<TensorView>>& sets, Progress& progress);
    /// Other inputs come: the best number of streams may be another.
    void forget() { best_.clear(); }

private:
    struct Place {
        int device = 0;
        std::vector<int> cpus;
        std::vector<Session> sessions{};
    };
    Result<void> grow(Place& place, std::size_t count);
    struct Choice {
        std::size_t streams = 1;
        std::vector<Throughput::Trial> trials{};
    };
    Result<Choice> best_streams(const SpreadPlan& plan, std::vector<std::vector<TensorView>>& sets, Progress& progress);
    Result<Throughput> run(const SpreadPlan& plan, std::size_t streams, std::vector<std::vector<TensorView>>& sets,
                           Progress& progress);

    const Engine* engine_ = nullptr;
    std::vector<Place> devices_;
    std::map<InputPlace, Choice> best_;
};

} // namespace lathe
